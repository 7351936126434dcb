package product

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// Attention in pairs of bfloat16, with AVX512_BF16. A head's rows are halved once, two numbers in a
// word. Of keys and values, words are then transposed, for products with queries and dy; and
// where sums go over keys, two neighbouring keys make a row of pairs, as two queries do for
// dk and dv. Scores are float32 until they are weights, and then halved where they lie.
//
// Sums over keys and queries begin at even ones, and a weight that does not count is zero. So a
// sum has the same bits wherever it begins. Where anything in a head is not finite, rows are taken
// one by one, and zeros take the place of neighbours in a pair that a row does not see.

// mostPaired is the most elements of a head that fit a block of steps.
const mostPaired = 2 * blockK

// halfWords is the words of a halved row of n numbers.
func halfWords(n int) int { return work.CeilDiv(n, 2*line) * line }

// halves are n halved rows of a head's operand, in dst, and whether all are finite.
func (k *heads) halves(dst []float32, o operand, n int) (operand, bool) {
	words := halfWords(k.hd)
	o.check(n, k.hd)
	_ = dst[n*words-1]
	return operand{data: dst, rs: words, cs: 1}, halveRows(&dst[0], words, &o.data[0], o.rs, k.hd, n)
}

// halvesSize is the words of all of a head's rows, and of as many more as are transposed at once.
func (k *heads) halvesSize() int { return (k.t + vectorSizes.lanes) * halfWords(k.hd) }

// turnedSize is the words of a head's transposed halves.
func (k *heads) turnedSize() int { return k.across * k.nr * halfWords(k.hd) }

// turn writes the transpose of n halved rows as panels.
func (k *heads) turn(dst []float32, o operand, n int) {
	words, lanes := halfWords(k.hd), vectorSizes.lanes
	_, _ = dst[k.turnedSize()-1], o.data[(work.CeilDiv(n, lanes)*lanes)*words-1]
	for j := 0; j < n; j += lanes {
		transpose(k.isa, &dst[j/k.nr*k.nr*words+j%k.nr], k.nr, &o.data[j*words], words, words)
	}
}

// scores writes to s rows of halved a times keys or values from..to that turn wrote; from is the first
// of a panel.
func (k *heads) scores(s []float32, a operand, turned []float32, rows, from, to int) {
	words := halfWords(k.hd)
	a.check(rows, words)
	_ = s[(rows-1)*k.ld+to-from-1]
	gemmPairs(&s[0], k.ld, &a.data[0], a.rs, 1, &turned[from*words], k.nr, k.nr*words, rows, to-from, work.CeilDiv(k.hd, 2), 0)
}

// paired is rows in pairs, as panels: from row to row of pairs nr words.
type paired struct {
	data []float32
	step int
}

// pairedSize is the words of n rows in pairs.
func (k *heads) pairedSize(n int) int {
	return work.CeilDiv(k.hd, k.nr) * k.nr * work.CeilDiv(n, 2)
}

// pairRows writes n halved rows of at most most in pairs.
func (k *heads) pairRows(dst []float32, o operand, n, most int) paired {
	o.check(n, halfWords(k.hd))
	p := paired{data: dst[:k.pairedSize(most)], step: k.nr * work.CeilDiv(most, 2)}
	spreadHalves(&dst[0], p.step, &o.data[0], o.rs, k.hd, n)
	return p
}

// only zeros the halves of rows from and to-1 whose other rows are not of from..to. What it returns,
// restore takes.
func (p paired) only(nr, from, to int, kept []float32) {
	keep := func(row int, mask uint32, kept []float32) {
		for at, i := row/2*nr, 0; at < len(p.data); at, i = at+p.step, i+nr {
			words := p.data[at:][:nr]
			copy(kept[i:], words)
			for j, w := range words {
				words[j] = math.Float32frombits(math.Float32bits(w) & mask)
			}
		}
	}
	if from%2 == 1 {
		keep(from, 0xffff0000, kept)
	}
	if to%2 == 1 {
		keep(to-1, 0xffff, kept[len(kept)/2:])
	}
}

// restore undoes only.
func (p paired) restore(nr, from, to int, kept []float32) {
	back := func(row int, kept []float32) {
		for at, i := row/2*nr, 0; at < len(p.data); at, i = at+p.step, i+nr {
			copy(p.data[at:][:nr], kept[i:])
		}
	}
	if to%2 == 1 {
		back(to-1, kept[len(kept)/2:])
	}
	if from%2 == 1 {
		back(from, kept)
	}
}

// keptSize is the words of two rows of pairs.
func (k *heads) keptSize() int { return 2 * work.CeilDiv(k.hd, k.nr) * k.nr }

// gather writes the sums of halved weights times the paired rows from..to. weights begin with that of
// row first, an even one. With alone, nothing else is read.
func (k *heads) gather(out operand, weights []float32, first int, p paired, rows, from, to int, kept []float32, alone bool) {
	start := from &^ 1
	_, _ = weights[(rows-1)*k.ld+(to-first-1)/2], out.data[(rows-1)*out.rs+k.hd-1]
	if alone {
		p.only(k.nr, from, to, kept)
	}
	gemmPairs(&out.data[0], out.rs, &weights[(start-first)/2], k.ld, 1, &p.data[start/2*k.nr], k.nr, p.step, rows, k.hd, work.CeilDiv(to-start, 2), 0)
	if alone {
		p.restore(k.nr, from, to, kept)
	}
}

// strip is the words from strip to strip of a block's weights: not a power of two.
func (k *heads) strip() int { return (k.block()/2 + 1) * line }

// stripsSize is the words of a block's weights in strips.
func (k *heads) stripsSize() int { return work.CeilDiv(k.ld, line) * k.strip() }

// attentionPairs is the forward pass.
type attentionPairs struct{ attention }

func (k *attentionPairs) Run(p work.Pool, a *work.Args) error {
	k.bind(a.In[0], a.Out[0], a.Out[1], a.In[1:])
	k.run(p, k)
	return nil
}

func (k *attentionPairs) Chunk(i int) {
	c, lo, live := k.wiped(i)
	if lo == live {
		return
	}
	_, first, end := k.span(c, lo, live)
	from, to := k.queriesOf(c)
	ws := takeWorkspace()
	defer ws.giveBack()
	mem := ws.arena(k.halvesSize() + k.turnedSize() + k.pairedSize(k.t) + k.group*k.ld + 2*(k.t+k.group) + k.keptSize())
	h := pairsHead{c: c, lo: lo, hi: live, first: first, rows: mem.cut(k.halvesSize()), keys: mem.cut(k.turnedSize())}
	pairs := mem.cut(k.pairedSize(k.t))
	h.s, h.most, h.sums, h.kept = mem.cut(k.group*k.ld), mem.cut(k.t+k.group), mem.cut(k.t+k.group), mem.cut(k.keptSize())
	keys, _ := k.halves(h.rows, k.qkvOf(k.qkv, from, 1, first), end-first)
	k.turn(h.keys, keys, end-first)
	values, finite := k.halves(h.rows, k.qkvOf(k.qkv, from, 2, first), end-first)
	h.values, h.alone = k.pairRows(pairs, values, end-first, k.t), !finite
	for head := from; head < to; head++ {
		k.head(&h, head)
	}
}

// pairsHead is the memory of one chunk: halved rows, keys and values from the first on, and for a group
// of queries scores, and the largest and the sum of each row.
type pairsHead struct {
	c, lo, hi        int // head of keys and values, and queries
	first            int // key
	rows, keys       []float32
	values           paired
	alone            bool // each row of weights: a value is not finite
	s                []float32
	most, sums, kept []float32
}

// head computes the queries of one head.
func (k *attentionPairs) head(h *pairsHead, head int) {
	queries, _ := k.halves(h.rows, k.qkvOf(k.qkv, head, 0, h.lo), h.hi-h.lo)
	for q0 := h.lo; q0 < h.hi; q0 += k.group {
		q1 := min(q0+k.group, h.hi)
		n, from, to := k.span(h.c, q0, q1)
		first := h.first + k.panel(from-h.first)
		k.scores(h.s, queries.from(q0-h.lo, 0), h.keys, q1-q0, first-h.first, to-h.first)
		k.masked(h.s, h.c, n, q0, q1, first, to, never)
		k.vec.Attend(&h.s[0], k.ld, q1-q0, k.counted(q0, first, to), wide(to-first), k.scale, &h.most[q0], &h.sums[q0])
		for q := q0; q < q1 && k.drop.Drops(); q++ {
			_, end := k.op.Seen(q, n)
			k.drop.Apply(h.s[(q-q0)*k.ld:][:end-first], k.index(head, q)+uint64(first))
		}
		halveRows(&h.s[0], k.ld, &h.s[0], k.ld, to-first, q1-q0)
		if !h.alone {
			k.gather(k.rowsOf(k.y, head, q0), h.s, first-h.first, h.values, q1-q0, from-h.first, to-h.first, nil, false)
			continue
		}
		for q := q0; q < q1; q++ {
			from, to := k.seen(h.c, q, n)
			k.gather(k.rowsOf(k.y, head, q), h.s[(q-q0)*k.ld:], first-h.first, h.values, 1, from-h.first, to-h.first, h.kept, true)
		}
	}
	k.logs(head, h.lo, h.hi, h.most, h.sums)
}

// attentionGradPairs is the gradient.
type attentionGradPairs struct{ attentionGrad }

func (k *attentionGradPairs) Run(p work.Pool, a *work.Args) error {
	k.bindGrad(a)
	k.run(p, k)
	k.addRanges(p)
	return nil
}

// gradPairs is the memory of one chunk of the gradient: halved keys and values from the first on; halved
// queries and dy of a head; for a group of queries P M, the gradient of the scores and M; for a
// block of queries the strips of both, and queries and dy in pairs.
type gradPairs struct {
	c, p, lo, hi       int // head of keys and values, range and its queries
	head               int // of queries
	first              int // key
	keys, values       []float32
	plain              paired // keys
	finite, alone      bool   // keys; each row of weights: something is not finite
	queries, dy        operand
	halves             []float32
	pm, ds, drops      []float32
	pmStrips, dsStrips []float32
	pairs, stats, kept []float32
}

// memory readies that of chunk i, whose queries are lo..hi.
func (k *attentionGradPairs) memory(ws *workspace, i, lo, hi int) gradPairs {
	c, _, _ := k.rangeOf(i)
	group, drops := k.group*k.ld, 0
	if k.drop.Drops() {
		drops = group
	}
	mem := ws.arena(2*k.turnedSize() + k.pairedSize(k.t) + 2*k.halvesSize() + 2*group + drops + 2*k.stripsSize() + k.pairedSize(k.block()) + 2*k.t + k.keptSize())
	h := gradPairs{c: c, p: i % k.ranges, lo: lo, hi: hi}
	h.keys, h.values = mem.cut(k.turnedSize()), mem.cut(k.turnedSize())
	plain := mem.cut(k.pairedSize(k.t))
	h.halves = mem.cut(2 * k.halvesSize())
	scores := mem.cut(2*group + drops)
	h.pm, h.ds, h.drops = scores[:group], scores[group:2*group], scores[2*group:]
	strips := mem.cut(2 * k.stripsSize())
	h.pmStrips, h.dsStrips = strips[:k.stripsSize()], strips[k.stripsSize():]
	h.pairs = mem.cut(k.pairedSize(k.block()))
	rest := mem.cut(2*k.t + k.keptSize())
	h.stats, h.kept = rest[:2*hi], rest[2*k.t:]
	_, first, end := k.span(c, lo, hi)
	h.first = first
	head, _ := k.queriesOf(c)
	values, _ := k.halves(h.halves, k.qkvOf(k.qkv, head, 2, first), end-first)
	k.turn(h.values, values, end-first)
	keys, finite := k.halves(h.halves, k.qkvOf(k.qkv, head, 1, first), end-first)
	k.turn(h.keys, keys, end-first)
	h.plain, h.finite = k.pairRows(plain, keys, end-first, k.t), finite
	return h
}

// begin readies it for a head of queries, from row lo on.
func (k *attentionGradPairs) begin(h *gradPairs, head int) {
	h.head = head
	n := h.hi - h.lo
	y, dy := k.rowsOf(k.y, head, h.lo), k.rowsOf(k.dy, head, h.lo)
	y.check(n, k.hd)
	roundedDots(&h.stats[2*h.lo+1], 2, &dy.data[0], dy.rs, &y.data[0], y.rs, n, k.hd)
	for q, v := range k.lse[head*k.t+h.lo:][:n] {
		h.stats[2*(h.lo+q)] = v
	}
	var finite, others bool
	h.queries, finite = k.halves(h.halves, k.qkvOf(k.qkv, head, 0, h.lo), n)
	h.dy, others = k.halves(h.halves[k.halvesSize():], dy, n)
	h.alone = !finite || !others || !h.finite
}

func (k *attentionGradPairs) Chunk(i int) {
	c, lo, hi := k.rangeOf(i)
	live := max(lo, min(hi, k.length(c)))
	from, to := k.queriesOf(c)
	k.clear(i, lo, live, hi)
	if lo == live {
		return
	}
	ws := takeWorkspace()
	defer ws.giveBack()
	h := k.memory(ws, i, lo, live)
	for head := from; head < to; head++ {
		k.begin(&h, head)
		for q0 := h.lo; q0 < h.hi; q0 += k.block() {
			q1 := min(q0+k.block(), h.hi)
			for q := q0; q < q1; q += k.group {
				k.queriesOfBlock(&h, q0, q, min(q+k.group, q1))
			}
			k.add(&h, q0, q1)
		}
	}
}

// queriesOfBlock computes a group's rows of P M and ds, their strips, and its dq. The rows of a
// block begin with the same key.
func (k *attentionGradPairs) queriesOfBlock(h *gradPairs, q0, q, q1 int) {
	rows := q1 - q
	n, _, to := k.span(h.c, q, q1)
	if k.op.Full { // strips have the keys that any query of the block sees
		_, _, to = k.span(h.c, q0, min(q0+k.block(), h.hi))
	}
	first := k.firstOf(h.c, h.first, q0)
	k.scores(h.pm, h.queries.from(q-h.lo, 0), h.keys, rows, first-h.first, to-h.first)
	k.scores(h.ds, h.dy.from(q-h.lo, 0), h.values, rows, first-h.first, to-h.first)
	k.weights(h.head, h.c, n, q, q1, first, to, h.pm, h.ds, h.drops, h.stats[2*q:])
	if rows%2 == 1 { // the last pair has one row
		clear(h.pm[rows*k.ld:][:wide(to-first)])
		clear(h.ds[rows*k.ld:][:wide(to-first)])
	}
	pairs, at := work.CeilDiv(rows, 2), (q-q0)/2*line
	strips(&h.pmStrips[at], k.strip(), &h.pm[0], k.ld, to-first, pairs)
	strips(&h.dsStrips[at], k.strip(), &h.ds[0], k.ld, to-first, pairs)
	halveRows(&h.ds[0], k.ld, &h.ds[0], k.ld, to-first, rows)
	if !h.alone {
		from, _ := k.seen(h.c, q, n)
		k.gather(k.qkvOf(k.dqkv, h.head, 0, q), h.ds, first-h.first, h.plain, rows, from-h.first, to-h.first, nil, false)
		return
	}
	for row := range rows {
		from, to := k.seen(h.c, q+row, n)
		k.gather(k.qkvOf(k.dqkv, h.head, 0, q+row), h.ds[row*k.ld:], first-h.first, h.plain, 1, from-h.first, to-h.first, h.kept, true)
	}
}

// add adds the contributions of queries q0..q1 to dk and dv, as that of attentionGrad.
func (k *attentionGradPairs) add(h *gradPairs, q0, q1 int) {
	_, from, to := k.span(h.c, q0, q1)
	first := k.firstOf(h.c, h.first, q0)
	head, _ := k.queriesOf(h.c)
	for _, s := range [2]struct {
		strips []float32
		rows   operand
		which  int
	}{{h.dsStrips, h.queries, 1}, {h.pmStrips, h.dy, 2}} {
		rows := k.pairRows(h.pairs, s.rows.from(q0-h.lo, 0), q1-q0, k.block())
		own := k.qkvOf(k.dqkv, head, s.which, 0)
		// those adds to the keys lo..hi, of out, the contributions of queries q on.
		those := func(out operand, q, lo, hi int, add bool) {
			for j := lo; j < hi; {
				end := min(j+k.group-(j-first)%k.group, hi)
				if h.alone {
					end = j + 1
				}
				k.spread(h, out, s.strips, rows, q0, q, q1, first, j, end, add)
				j = end
			}
		}
		switch {
		case k.op.Full && h.p == 0:
			those(own, q0, from, to, true)
			continue
		case k.op.Full:
			those(k.beyond(h.c, h.p, s.which), q0, from, to, true)
			continue
		case from < h.lo:
			those(k.beyond(h.c, h.p, s.which), q0, from, h.lo, true)
		}
		those(own, q0, max(from, h.lo), q0, true)
		for q := q0; q < q1; q += k.group {
			those(own, q, q, min(q+k.group, q1), h.head > head)
		}
	}
}

// spread adds to the rows of keys lo..hi, in one strip, the contributions of queries q..q1 of the block from q0 on.
func (k *attentionGradPairs) spread(h *gradPairs, out operand, weights []float32, rows paired, q0, q, q1, first, lo, hi int, add bool) {
	end, adds := q1, 0
	if add {
		adds = 1
	}
	if h.alone { // of one key, the queries that see it
		n := k.length(h.c)
		sees := func(q int) bool { from, to := k.seen(h.c, q, n); return from <= lo && lo < to }
		for q < end && !sees(q) {
			q++
		}
		for end > q && !sees(end-1) {
			end--
		}
		rows.only(k.nr, q-q0, end-q0, h.kept)
		defer rows.restore(k.nr, q-q0, end-q0, h.kept)
	}
	start := (q - q0) / 2
	a := weights[(lo-first)/line*k.strip()+start*line+(lo-first)%line:]
	c := out.data[lo*out.rs:]
	_, _ = a[(work.CeilDiv(end-q0, 2)-start-1)*line+hi-lo-1], c[(hi-lo-1)*out.rs+k.hd-1]
	gemmPairs(&c[0], out.rs, &a[0], 1, line, &rows.data[start*k.nr], k.nr, rows.step, hi-lo, k.hd, work.CeilDiv(end-q0, 2)-start, adds)
}
