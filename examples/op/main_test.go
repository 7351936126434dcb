package main

import (
	"encoding/json"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"waves": main}) }

// The program is a trainer that knows its layer.
func TestTrainer(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: map[string]func(*testscript.TestScript, bool, []string){"sameweights": sameWeights}})
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
