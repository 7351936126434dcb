package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
)

// ErrOptions is the cause of errors about [RunOptions].
var ErrOptions = errors.New("cannot measure")

// RunOptions says how to measure.
type RunOptions struct {
	Seconds float64 // the least time to measure for; 0 means 3
	// Steps is the number of steps to measure, in place of Seconds; 0 means that
	// Seconds decides. With it, two measurements end with the same weights.
	Steps        int
	Microbatches int    // equal pieces of a batch; 0 means 1
	Threads      int    // worker threads over all devices; 0 means one per core
	Devices      string // "cpu" or "cpu:2"; empty means cpu
	ShareDevice  bool   // several devices may be on one physical device
	Stages       int    // of the model; 0 means one per device
	Schedule     string // of microbatches, as in partition.PlanOptions; empty means 1f1b
	// Reduction is how the microbatches of a step are summed; empty means in their
	// order. Replicas share the devices and the microbatches; 0 means 1, and more
	// need a tree. Shard is the part of the model that they divide; empty means none.
	Reduction partition.Reduction
	Replicas  int
	Shard     partition.Shard
	// DeviceMemory is the limit of each device. A percentage is of the most that
	// the plan takes there without a limit.
	DeviceMemory configs.Memory
	// HostMemory bounds the host memory of tensors and batches, in bytes; 0: no
	// bound. Tensors beyond it go to a file in SpillDir, or else where the system
	// has temporary files.
	HostMemory int64
	SpillDir   string
	// Timeout is the longest that one operation of a device may take; 0 means five
	// minutes, as devices.timeout does by default.
	Timeout time.Duration
	// Faults make operations of the devices go wrong, for tests and drills.
	Faults  []fault.Fault
	Profile bool // time every kernel; this slows short kernels a little
	// Watch is the time between looks at the losses while steps run, as train.watch has it; 0:
	// none. Without a limit on memory: its copies would count as looks'.
	Watch  time.Duration
	OpByOp bool // run each op by itself, and check that its results are finite
	// Recompute selects the values that the backward pass computes again to
	// save memory: none, cheap or block; empty means none.
	Recompute partition.Recompute
	Precision string // float32 or bf16, as in a config; empty means float32
	Weights   string // of Generate: how weights lie in memory, float32, bf16 or int8; empty means float32
	// Ranks are the processes that train together, each with these devices; nil: this
	// process is alone. Replicas are then 0 for as many as there are ranks, or devices for
	// the stages of each, and Shard empty for the optimizer, if a tree sums the
	// microbatches.
	Ranks *crew.Crew

	// For tests.
	onKernel func(device.KernelSpan) // takes the profile's place
	peakTime time.Duration           // instead of the time that filled chooses; 0 means that

	costs string // the file of measured times that predictions are by, of a scaling
}

// checkReplicas refuses words that mean nothing, and replicas that cannot share a step.
func (o RunOptions) checkReplicas() error {
	switch r := o.Reduction; {
	case !slices.Contains([]partition.Reduction{"", partition.ReduceOrder, partition.ReduceTree}, r):
		return fmt.Errorf("%w: --reduction %s: write order or tree", ErrOptions, r)
	case !slices.Contains([]partition.Shard{"", partition.ShardNone, partition.ShardOptimizer}, o.Shard):
		return fmt.Errorf("%w: --shard %s: write none or optimizer", ErrOptions, o.Shard)
	case o.Replicas < 0 || o.Replicas > max(1, o.Microbatches):
		return fmt.Errorf("%w: --replicas %d: give at least 1, and at most --microbatches", ErrOptions, o.Replicas)
	case o.Replicas > 1 && r != partition.ReduceTree:
		return fmt.Errorf("%w: --replicas %d: give --reduction tree, too", ErrOptions, o.Replicas)
	}
	return nil
}

// checkSpillDir refuses a folder for nothing, and one that is not there.
func (o RunOptions) checkSpillDir() error {
	switch {
	case o.SpillDir == "":
		return nil
	case o.HostMemory == 0:
		return fmt.Errorf("%w: --spill-dir: nothing is spilled unless --host-memory limits host memory; give --host-memory too, or leave --spill-dir out", ErrOptions)
	}
	if err := hostfile.CheckFolder(o.SpillDir); err != nil {
		return fmt.Errorf("%w: --spill-dir %s: %w", ErrOptions, o.SpillDir, err)
	}
	return nil
}

// Products of peakSide are repeated for mostPeakTime, or in a short measurement for as long
// as that, a step counted as peakTimePerStep.
const (
	mostPeakTime    = 350 * time.Millisecond
	peakTimePerStep = 10 * time.Millisecond
)

// defaultTimeout is the default of RunOptions.Timeout.
const defaultTimeout = 5 * time.Minute

// The default and the longest measurement, in seconds.
const (
	defaultSeconds = 3
	mostSeconds    = 24 * 3600
)

// The precisions.
const (
	float32Name = "float32"
	bf16Name    = "bf16"
)

// checked is o with its defaults filled in, or why it cannot be used.
func (o RunOptions) checked() (RunOptions, error) {
	if !(o.Seconds >= 0 && o.Seconds <= mostSeconds) {
		return o, fmt.Errorf("%w: --seconds %v: give at most %d, or 0 for the default", ErrOptions, o.Seconds, mostSeconds)
	}
	if o.Steps < 0 || o.Microbatches < 0 {
		return o, fmt.Errorf("%w: --steps %d and --microbatches %d: give whole numbers above 0, or 0 for the defaults", ErrOptions, o.Steps, o.Microbatches)
	}
	if o.Stages < 0 {
		return o, fmt.Errorf("%w: --stages %d: give at least 1, or 0 for one per device", ErrOptions, o.Stages)
	}
	if names := schedule.TrainingNames(); o.Schedule != "" && !slices.Contains(names, o.Schedule) {
		return o, fmt.Errorf("%w: --schedule %s: choose one of %s", ErrOptions, o.Schedule, strings.Join(names, ", "))
	}
	if err := (schedule.Spec{Name: "1f1b", Stages: 1, Microbatches: max(1, o.Microbatches)}).Check(); err != nil {
		return o, fmt.Errorf("%w: --microbatches: %w", ErrOptions, err)
	}
	if o.Threads < 0 || o.Threads > configs.MaxThreads {
		return o, fmt.Errorf("%w: --threads %d: give at most %d, or 0 for one per core", ErrOptions, o.Threads, configs.MaxThreads)
	}
	if p := o.Precision; p != "" && p != float32Name && p != bf16Name {
		return o, fmt.Errorf("%w: --precision %s: write %s or %s", ErrOptions, p, float32Name, bf16Name)
	}
	if r := o.Recompute; !slices.Contains([]partition.Recompute{"", partition.RecomputeNone, partition.RecomputeCheap, partition.RecomputeBlock}, r) {
		return o, fmt.Errorf("%w: --recompute %s: write none, cheap or block", ErrOptions, r)
	}
	o, err := o.ofRanks()
	if err := cmp.Or(err, o.checkReplicas(), o.checkSpillDir()); err != nil {
		return o, err
	}
	if o.Watch < 0 || o.Watch > 0 && (o.DeviceMemory != configs.Memory{}) {
		return o, fmt.Errorf("%w: --watch %v: give a time above 0, and leave --device-memory out: what leaves for want of memory is copied out, too", ErrOptions, o.Watch)
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("%w: --timeout %v: give a time above 0, or 0 for the default", ErrOptions, o.Timeout)
	}
	return o.filled(), nil
}

// choosePeakTime is the time for which products are repeated.
func (o RunOptions) choosePeakTime() time.Duration {
	if o.Steps > 0 {
		return time.Duration(min(o.Steps, int(mostPeakTime/peakTimePerStep))) * peakTimePerStep
	}
	seconds := cmp.Or(o.Seconds, defaultSeconds)
	return time.Duration(min(seconds, mostPeakTime.Seconds()) * float64(time.Second))
}

// filled is o with its defaults filled in.
func (o RunOptions) filled() RunOptions {
	if o.Precision == "" {
		o.Precision = float32Name
	}
	o.Reduction, o.Shard = cmp.Or(o.Reduction, partition.ReduceOrder), cmp.Or(o.Shard, partition.ShardNone)
	if o.Microbatches == 0 {
		o.Microbatches = 1
	}
	if o.peakTime == 0 {
		o.peakTime = o.choosePeakTime()
	}
	if o.Seconds == 0 {
		o.Seconds = defaultSeconds
	}
	if o.Devices == "" {
		o.Devices = "cpu"
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return o
}
