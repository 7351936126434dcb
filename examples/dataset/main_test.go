package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/datasets/custom"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"spirals": main}) }

// The program is a trainer that knows its source.
func TestTrainer(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

// Fill has none of the usual mistakes.
func TestSpirals(t *testing.T) {
	set, err := open(t.Context(), keys{Points: 100, Turns: 1, Noise: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	set.Name, set.Version = "spirals", 1
	if err := custom.Check(set); err != nil {
		t.Error(err)
	}
}
