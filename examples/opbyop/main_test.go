package main

import (
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/eager"
)

// Ten epochs suffice for 24 of 25 digits, and everything is given back.
func TestTrain(t *testing.T) {
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := devices.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	accuracy, err := train(t.Context(), c, 10)
	if err != nil || accuracy < 0.96 {
		t.Errorf("accuracy %v, %v", accuracy, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := devices.Close(); err != nil {
		t.Error(err)
	}
}
