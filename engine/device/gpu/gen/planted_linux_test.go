package gen

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
)

// planted are trials whose kernels, of the identity of 64 numbers, have a mistake each.
func planted() (trials []trial) {
	for name, body := range map[string]string{
		"race":          "\tSHARED f32 T[64];\n\tT[LANE] = X[LANE];\n\tZ[LANE] = T[63 - LANE];\n",
		"uninitialised": "\tSHARED f32 T[64];\n\tif (LANE < 63) T[LANE] = X[LANE];\n\tBARRIER;\n\tZ[LANE] = T[LANE];\n",
		"outside":       "\tZ[LANE] = X[LANE + 1000000];\n",
		"beside":        "\tZ[LANE] = X[LANE];\n\tif (LANE == 0) Z[64] = 1.0f;\n",
	} {
		x := kernelstest.Noise(64)
		n, err := kernelstest.NodeOf(ops.Unary{Fn: "neg"}, []ref.Array{x})
		if err != nil {
			panic(err)
		}
		c := fuse.Single(n)
		w := &writer{node: n, ins: []Arg{{Role: In}}, outs: []Arg{{Role: Out}}}
		w.tiles(1, 64, []param{in(0, "X"), out(0, "Z")}, body)
		trials = append(trials, trial{name: name, in: n.In, bytes: [][]byte{kernelstest.Load(x).Mem}, steps: []step{{cluster: c, calls: w.calls}}, planted: true})
	}
	return trials
}

// plantedComplaints are Oclgrind's words for the mistakes of the planted trials. It does
// not see a write beside a value, but that changes the memory there.
var plantedComplaints = map[string]string{
	"race":          "data race at local memory",
	"uninitialised": "ninitialized",
	"outside":       "Invalid read",
}

// checkPlanted reports a planted mistake that was not found.
func (r result) checkPlanted(t *testing.T) {
	t.Helper()
	if !strings.Contains(r.Complaints, plantedComplaints[r.Name]) || r.Intact == (r.Name == "beside") {
		t.Errorf("the planted mistake %q was not found: memory beside the values is intact: %v; Oclgrind: %s", r.Name, r.Intact, r.Complaints)
	}
}
