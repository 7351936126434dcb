package gen

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var products = map[string]template{"matmul": matmul}

// tile is the side of the square of the result that a group computes; each of its
// lanes computes perLane numbers of a row of the tile.
const (
	tile    = 16
	perLane = tile * tile / GroupLanes
)

// matmul sums products in ascending order of k, each with one fused multiply-add,
// whatever the tiles.
func matmul(w *writer, op graph.Op) error {
	o := op.(ops.MatMul)
	round := ""
	if o.BF16 {
		round = "bf16_f"
	}
	a, b := w.node.In[0].Meta.Shape, w.node.In[1].Meta.Shape
	m, n, k := o.Dims(a, b)
	batches := a[:a.Rank()-2].Elems()
	bBatch := k * n
	if b.Rank() < a.Rank() {
		bBatch = 0
	}
	ai, ak := k, 1
	if o.TransA {
		ai, ak = 1, m
	}
	bk, bj := n, 1
	if o.TransB {
		bk, bj = 1, k
	}
	params, store := w.result()
	tilesM, tilesN := up(m, tile)/tile, up(n, tile)/tile
	body := fmt.Sprintf(`	SHARED f32 TA[%[1]d], TB[%[1]d];
	i64 g = GROUP, tn = g %% tilesN, tm = g / tilesN %% tilesM, p = g / tilesN / tilesM;
	i64 row = LANE / %[3]d, col = LANE %% %[3]d * %[4]d;
	f32 sum[%[4]d];
	for (i64 j = 0; j < %[4]d; j++) sum[j] = 0.0f;
	for (i64 k0 = 0; k0 < K; k0 += %[2]d) {
		for (i64 e = LANE; e < %[1]d; e += LANES) {
			i64 r = e / %[2]d, c = e %% %[2]d, i = tm * %[2]d + r, j = tn * %[2]d + c;
			TA[e] = i < M && k0 + c < K ? %[5]s(A[p * M * K + i * ai + (k0 + c) * ak]) : 0.0f;
			TB[e] = j < N && k0 + r < K ? %[5]s(B[p * bBatch + (k0 + r) * bk + j * bj]) : 0.0f;
		}
		BARRIER;
		i64 most = K - k0 < %[2]d ? K - k0 : %[2]d;
		for (i64 l = 0; l < most; l++) {
			f32 x = TA[row * %[2]d + l];
			for (i64 j = 0; j < %[4]d; j++) sum[j] = FMA(x, TB[l * %[2]d + col + j], sum[j]);
		}
		BARRIER;
	}
	i64 i = tm * %[2]d + row;
	for (i64 j = 0; j < %[4]d; j++)
		if (i < M && !STATUS[0] && tn * %[2]d + col + j < N) %[6]s
`, tile*tile, tile, tile/perLane, perLane, round, store(fmt.Sprintf("p * M * N + i * N + tn * %d + col + j", tile), "sum[j]"))
	w.tiles(batches*tilesM*tilesN, GroupLanes, append(params, in(0, "A"), in(1, "B"), number("M", m), number("N", n), number("K", k),
		number("ai", ai), number("ak", ak), number("bk", bk), number("bj", bj), number("bBatch", bBatch), number("tilesM", tilesM), number("tilesN", tilesN)), body)
	return nil
}
