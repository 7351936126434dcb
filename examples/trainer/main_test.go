package main

import (
	"encoding/json"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"spirals": main, "waves": main, "lstm": main, "toy": main})
}

// The program is a trainer that knows what each package adds.
func TestTrainer(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: map[string]func(*testscript.TestScript, bool, []string){
		"sameweights": sameWeights, "learnt": learnt,
	}})
}

// sameWeights compares the hashes of the weights in two reports.
func sameWeights(ts *testscript.TestScript, _ bool, args []string) {
	var hashes [2]string
	for i := range hashes {
		var report struct {
			Hash string `json:"weights_sha256"`
		}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[i])), &report))
		hashes[i] = report.Hash
	}
	if hashes[0] == "" || hashes[0] != hashes[1] {
		ts.Fatalf("weights %q and %q", hashes[0], hashes[1])
	}
}

// learnt checks that reports have equal weights, and the first a validation loss below
// that of guessing by frequency, 3.3.
func learnt(ts *testscript.TestScript, _ bool, args []string) {
	var first string
	for i, name := range args {
		var report struct {
			Hash  string `json:"weights_sha256"`
			Final struct {
				Loss float64 `json:"val_loss"`
			} `json:"final"`
		}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &report))
		if i == 0 {
			first = report.Hash
		}
		if report.Hash != first || report.Hash == "" {
			ts.Fatalf("%s: weights %q, want %q", name, report.Hash, first)
		}
		if report.Final.Loss == 0 || report.Final.Loss > 2.6 {
			ts.Fatalf("%s: validation loss %v, want at most 2.6", name, report.Final.Loss)
		}
	}
}
