package rows

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
)

// TestDataErrors has ids and targets that are impossible: the first is named.
func TestDataErrors(t *testing.T) {
	table, bad := ref.Floats(make([]float64, 65*2), 65, 2), ref.Ints([]int32{1, 2, 3, 70, -1}, 5)
	logits := ref.Floats(make([]float64, 5*65), 5, 65)
	lse, one := ref.Floats(make([]float64, 5), 5), ref.Floats([]float64{1})
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want string
	}{
		{ops.Gather{}, []ref.Array{table, bad}, "token 70 at position 3 is outside the vocabulary of 65"},
		{ops.ScatterAdd{Rows: 65}, []ref.Array{bad, ref.Floats(make([]float64, 10), 5, 2)}, "token 70 at position 3 is outside the vocabulary of 65"},
		{ops.CrossEntropy{}, []ref.Array{logits, bad}, "target 70 at position 3 is outside the 65 classes"},
		{ops.CrossEntropyGrad{}, []ref.Array{logits, bad, lse, one}, "target 70 at position 3 is outside the 65 classes"},
		{ops.Correct{}, []ref.Array{logits, bad}, "target 70 at position 3 is outside the 65 classes"},
	} {
		l, err := rig.Prepare(c.op, c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run(kernelstest.Serial{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", graph.OpString(c.op), err, c.want)
		}
	}
}

func TestCheckFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		l, err := rig.Prepare(ops.CheckFinite{}, []ref.Array{ref.Floats([]float64{v})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var nf *device.NonFiniteError
		if err := l.Run(kernelstest.Serial{}); !errors.As(err, &nf) || !errors.Is(err, device.ErrNonFinite) {
			t.Errorf("%v: got %v", v, err)
		}
	}
}
