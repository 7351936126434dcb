package executor_test

import (
	"testing"

	"github.com/berth-ml/berth/residency"
)

// Once variables have their first contents, none of these are on the host.
func TestInitLeavesNothingOnTheHost(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		r := mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
		if err := r.prog.Init(short(t), first); err != nil {
			t.Fatal(err)
		}
		if m := r.rt.Residency.HostMemory(); m.Used != 0 {
			t.Errorf("%d devices: %d bytes are on the host", devices, m.Used)
		}
	}
}
