package command

import (
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/engine/device"
)

// openCL is the condition that a driver has a device. With TEST_OPENCL=required, it is
// an error that none has.
var openCL = sync.OnceValues(func() (bool, error) {
	devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil && os.Getenv("TEST_OPENCL") != "required" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, devs[0].Close()
})

// planned RUN compares the memory that each device took with the plan: the peak, or
// where the limit is below it, between the floor and the limit.
func planned(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: planned RUN")
	}
	for _, d := range reportOf(ts, args[0]).Devices {
		least, most := d.Planned, d.Planned
		if d.BudgetBytes < d.Planned {
			least, most = d.Floor, d.BudgetBytes
		}
		if d.PeakBytes < least || d.PeakBytes > most {
			ts.Fatalf("%s took %d bytes, expected %d to %d", d.ID, d.PeakBytes, least, most)
		}
	}
}
