package gen

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestArgumentsFit fuses as many nodes as a cluster takes, each with operands, numbers and
// a result of its own.
func TestArgumentsFit(t *testing.T) {
	b := graph.NewBuilder("wide", 1)
	x := b.Input("x", shape.F32(7, 5, 3))
	for i := range 24 {
		x = b.One(ops.Dropout{P: 0.5, ID: uint64(i)}, x, b.Input(fmt.Sprint("step", i), shape.I32()), b.Input(fmt.Sprint("base", i), shape.I32()))
		b.Output(fmt.Sprint("z", i), x)
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	cuts := fuse.Cut(g, nil)
	if len(cuts.Clusters) != 1 {
		t.Fatalf("%d clusters, want one:\n%v", len(cuts.Clusters), cuts)
	}
	calls, _, err := Cluster(cuts.Clusters[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := len(calls[0].Args); n > mostArgs || n == 0 {
		t.Errorf("%d arguments, want at most %d", n, mostArgs)
	}
}
