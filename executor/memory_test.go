package executor_test

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/residency"
)

// No number comes from memory that nobody wrote.
func TestSameWeightsFromPoisonedMemory(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]job{"mlp": mlpJob(3), "gpt": gptJob(3), "cnn": cnnJob(3), "loop": loopJob(3)} {
		for devices := 1; devices <= 3; devices++ {
			want, err := plain.trained(j)
			if err != nil {
				t.Fatal(err)
			}
			devs, err := openDevices("cpu", devices, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range devs {
				devs[i] = devicetest.Poison(d)
			}
			got, err := trained(j, devs, "1f1b", residency.ManagerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d := differ(want, got); d != "" {
				t.Errorf("%s on %d devices: %s", name, devices, d)
			}
		}
	}
}

// The most bytes in use, and the bytes that move, do not depend on timing: they
// are equal from run to run, with plenty of memory and with little.
func TestMemoryRepeats(t *testing.T) {
	t.Parallel()
	j := gptJob(4)
	for devices := 1; devices <= 3; devices += 2 {
		least := least(t, j, devices, 2, "1f1b")
		for i := range least {
			least[i] += least[i] / 2
		}
		for _, bytes := range [][]int64{roomy(devices), least} {
			var first string
			for run := range 3 {
				devs, err := openSized(bytes, 2)
				if err != nil {
					t.Fatal(err)
				}
				r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
				for i := 0; err == nil && i < 4; i++ {
					step(t, r, r.prog, i, j.batch())
				}
				if err == nil {
					err = r.prog.Drain(short(t))
				}
				if err != nil {
					t.Fatal(err)
				}
				got := r.rt.Residency.Ledger().String()
				for _, d := range devs {
					s := d.Stats()
					got += fmt.Sprintf("%s: peak %d %v\n", d.ID(), s.Peak, s.PeakBy)
				}
				if err := r.close(); err != nil {
					t.Fatal(err)
				}
				if run > 0 && got != first {
					t.Fatalf("%d devices, %d bytes: at first\n%s\nnow\n%s", devices, bytes, first, got)
				}
				first = got
			}
		}
	}
}
