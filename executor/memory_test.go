package executor_test

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// No number comes from memory that nobody wrote.
func TestSameWeightsFromPoisonedMemory(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]job{"mlp": mlpJob(3), "gpt": gptJob(3), "cnn": cnnJob(3), "loop": loopJob(3), "brief": briefJob(3)} {
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

// Whoever asks who has the memory gets what the devices have given out, by usage, between any two steps, also where it is short
// and tensors leave and come back.
func TestMeasuredMemoryIsTheDevices(t *testing.T) {
	t.Parallel()
	j := gptJob(4)
	for _, devices := range []int{1, 2} {
		tight := least(t, j, devices, 2, "1f1b")
		for _, bytes := range [][]int64{roomy(devices), tight} {
			devs, err := openSized(bytes, 2)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				step(t, r, r.prog, i, j.batch())
				most := r.rt.Residency.Measure()
				m := r.rt.Residency.Measure()
				for k, d := range devs {
					s := d.Stats()
					if used := most.Devices[k].Used(); i == 0 && used != s.Peak || used > s.Peak {
						t.Errorf("step %d: at most %d bytes, and %s has given out %d at most", i, used, d.ID(), s.Peak)
					}
					if m.Devices[k].Used() != s.Live || m.Devices[k].Limit != bytes[k] || m.Devices[k].ID != string(d.ID()) {
						t.Errorf("step %d: %+v, and %s has given out %d bytes", i, m.Devices[k], d.ID(), s.Live)
					}
					for u, n := range s.LiveBy {
						if got := m.Devices[k].Tenants[0].ByUsage[device.Usage(u).String()]; got != n {
							t.Errorf("step %d: %d bytes of %s, and %s has given out %d", i, got, device.Usage(u), d.ID(), n)
						}
					}
				}
			}
			spilled := int64(0)
			for _, d := range r.rt.Residency.Measure().Devices {
				spilled += d.Moves.Spilled
			}
			if want := r.rt.Residency.Ledger().Total(ledger.Spill).Bytes; spilled != want || bytes[0] == tight[0] && want == 0 {
				t.Errorf("%d bytes were spilled, by the ledger %d", spilled, want)
			}
			if err := r.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
