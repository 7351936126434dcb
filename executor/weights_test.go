package executor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency/ledger"
)

// The hash is of parameters and statistics alone, by name, on any devices.
func TestWeightsHash(t *testing.T) {
	for _, devices := range []string{"cpu", "cpu:2"} {
		r := smallrun.New(t, devices)
		vars := slices.Clone(r.Plan.Graph.Vars)
		slices.SortFunc(vars, func(a, b *graph.Value) int { return strings.Compare(a.Name, b.Name) })
		h := sha256.New()
		for _, v := range vars {
			if v.Role != graph.Parameter && v.Role != graph.Statistic {
				continue
			}
			b := make([]byte, v.Meta.Bytes())
			if err := r.First(v, b); err != nil {
				t.Fatal(err)
			}
			h.Write([]byte(v.Name))
			h.Write(b)
		}
		if got, err := r.Program.WeightsHash(t.Context()); err != nil || got != hex.EncodeToString(h.Sum(nil)) {
			t.Errorf("%s: %s, %v", devices, got, err)
		}
	}
}

// Hashing leaves nothing on the host, and has few weights there at a time.
func TestWeightsHashKeepsNothing(t *testing.T) {
	r := smallrun.New(t, "cpu")
	before := r.Runtime.Residency.HostMemory().Used
	if _, err := r.Program.WeightsHash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used := r.Runtime.Residency.HostMemory().Used; used != before {
		t.Errorf("the host has %d bytes, %d before", used, before)
	}
}

// A variable that the program does not have is named in an error.
func TestWeightsThatAreNotHere(t *testing.T) {
	r := smallrun.New(t, "cpu")
	i := slices.IndexFunc(r.Plan.Graph.Vars, func(v *graph.Value) bool { return v.Role == graph.Parameter })
	name := r.Plan.Graph.Vars[i].Name
	r.Program.Forget(name)
	reader := r.Program.NewVarReader(ledger.Epoch)
	defer reader.Close()
	_, hashed := r.Program.WeightsHash(t.Context())
	for _, err := range []error{hashed, reader.Read(t.Context(), i, 0, make([]byte, 4))} {
		if err == nil || !strings.Contains(err.Error(), name+" is not on this rank") {
			t.Errorf("%s is not there: %v", name, err)
		}
	}
}
