package train_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// needOpenCL skips a test where no driver has a device.
func needOpenCL(t *testing.T) {
	t.Helper()
	devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	if err := devs[0].Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BERTH_COSTS", filepath.Join(t.TempDir(), "times.json"))
}

// mixedCases are shipped configs on devices of two kinds.
func mixedCases() []memoryCase {
	cases := []memoryCase{{"digits", []string{"train.microbatches=4", "devices.use=cpu,opencl", "partition.costs=flops"}}}
	if testall.Wanted() {
		cases = append(cases,
			memoryCase{"digits", []string{"train.microbatches=4", "devices.use=cpu,opencl"}},
			memoryCase{"digits", []string{"devices.use=opencl"}},
			memoryCase{"digits", []string{"train.microbatches=2", "devices.use=cpu:2,opencl"}},
			memoryCase{"digits", []string{"train.microbatches=4", "train.reduction=tree", "partition.replicas=2", "devices.use=cpu,opencl"}},
			memoryCase{"digits-cnn", []string{"train.microbatches=2", "devices.use=cpu,opencl", "partition.schedule=gpipe"}},
			memoryCase{"shakespeare", []string{"train.microbatches=2", "devices.use=cpu,opencl"}})
	}
	return cases
}

// A mixed run takes the memory, and passes the bytes through the host, that its plan
// states. Each weight goes in once, to the device that has it.
func TestMixedRunsAreAsPlanned(t *testing.T) {
	testall.Long(t)
	needOpenCL(t)
	for _, c := range mixedCases() {
		t.Run(fmt.Sprint(c.name, c.set), func(t *testing.T) {
			run, err := c.open(t, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			report := runtest.Train(t, run, berth.TrainOptions{MaxSteps: 5, AssertResident: true})
			for i, f := range run.Plan().Memory {
				if got := report.Devices[i].PeakBytes; got != f.Peak {
					t.Errorf("%s: planned %d bytes (%v), measured %d (%v)", report.Devices[i].ID, f.Peak, f.PeakBy, got, report.Devices[i].ByUsage)
				}
			}
			step, err := run.Plan().Predict(nil)
			if err != nil {
				t.Fatal(err)
			}
			var passes int64
			for _, x := range step.Copies {
				if x.Hosted {
					passes += x.Bytes
				}
			}
			weights := weightsByDevice(t, run.Plan())
			steady := report.Ledger.SteadyState
			if steady.PullBackBytesPerStep != passes || steady.CopyInBytesPerStep != passes+steady.BatchBytesPerStep {
				t.Errorf("planned %d bytes a step through the host, measured %d out and %d in with the batch's %d",
					passes, steady.PullBackBytesPerStep, steady.CopyInBytesPerStep, steady.BatchBytesPerStep)
			}
			if got := report.Ledger.CopyInWeightBytes; got != weights {
				t.Errorf("weights of %d bytes went in: the devices have %d", got, weights)
			}
		})
	}
}

// weightsByDevice is the bytes of the weights and statistics that each device uses, of
// all devices together.
func weightsByDevice(t *testing.T, p *partition.Plan) (bytes int64) {
	t.Helper()
	launches, err := p.Launches(partition.StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		t.Fatal(err)
	}
	type copied struct {
		device int
		name   string
	}
	seen := map[copied]bool{}
	for _, l := range launches {
		for _, n := range l.Needs {
			k := copied{l.Device, n.Value.Name}
			if n.Value.Kind == graph.Variable && n.Usage == device.Weight && !seen[k] {
				seen[k] = true
				bytes += n.Value.Meta.Bytes()
			}
		}
	}
	return bytes
}

// A mixed run goes on with its plan, and ends with the same weights as without a stop,
// within less memory, or op by op.
func TestMixedRunGoesOn(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("trains three times: set TEST_ALL")
	}
	needOpenCL(t)
	open := func(set ...string) *berth.Run {
		c, err := configs.Load("digits", configs.Overlay{Set: append(set, "devices.use=cpu,opencl", "train.epochs=1", "train.microbatches=2")})
		if err != nil {
			t.Fatal(err)
		}
		run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := run.Close(); err != nil {
				t.Error(err)
			}
		})
		return run
	}
	want := runtest.Train(t, open(), berth.TrainOptions{}).WeightsSHA256
	dir := t.TempDir()
	runtest.Train(t, open(), berth.TrainOptions{Dir: dir, MaxSteps: 20})
	if got := runtest.Train(t, open("devices.memory=75%"), berth.TrainOptions{Dir: dir, Resume: true}).WeightsSHA256; got != want {
		t.Errorf("after a stop, and in less memory, the weights are %s, want %s", got, want)
	}
	if got := runtest.Train(t, open("devices.op_by_op=plain"), berth.TrainOptions{}).WeightsSHA256; got != want {
		t.Errorf("op by op, the weights are %s, want %s", got, want)
	}
}
