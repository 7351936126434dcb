package main

import (
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/cpu"
)

// Cards have the kernels of cpu's generic level, and so its weights: alone, in stages,
// beside a cpu, within little memory, op by op.
func TestSameWeights(t *testing.T) {
	t.Setenv(cpu.ISAVariable, "generic")
	want := train(t, "devices=cpu")
	for _, ways := range [][]string{
		{"devices=toy"},
		{"devices=toy:2"},
		{"devices=cpu,toy", "partition.pin={layers.0: 'toy:0', layers.2: 'cpu:0'}"},
		{"devices=toy", "devices.memory=50%"},
		{"devices=toy", "devices.op_by_op=plain"},
	} {
		if got := train(t, ways...); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%v: other weights than on cpu", ways)
		}
	}
	if loss := *want.Final.ValLoss; loss > 1.5 { // 2.3 before training
		t.Errorf("the validation loss is %v", loss)
	}
}

// train takes some steps with digits.
func train(t *testing.T, set ...string) *berth.Report {
	t.Helper()
	c, err := configs.Load("digits", configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := run.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 50})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	return report
}
