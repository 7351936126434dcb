package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"

	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/device/fault"
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // registers itself
	_ "github.com/berth-ml/berth/engine/device/null"   // registers itself
)

// opens is how the devices of a measurement are opened.
func (o RunOptions) opens() device.OpenOptions {
	opens := device.OpenOptions{Threads: o.Threads, Shared: o.ShareDevice}
	if o.Ranks != nil {
		opens.Among = o.Ranks.Part().Of
	}
	return opens
}

// openDevices opens the devices that "cpu" or "cpu:2" names.
func openDevices(name string, o device.OpenOptions) ([]device.Device, error) {
	list, err := device.ParseList(name)
	if err != nil || len(list) != 1 || list[0].Count < 1 {
		return nil, fmt.Errorf("%w: devices %q: write a kind, as in cpu, or a kind and a count, as in cpu:2", ErrOptions, name)
	}
	o.Count = list[0].Count
	devs, err := device.Open(list[0].Kind, o)
	if err == nil && !devs[0].Spec().CopyOut {
		err = fmt.Errorf("%w: devices %q compute nothing: measure devices that do, such as cpu", ErrOptions, name)
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
	return devs, err
}

// look describes the devices that are asked for, once they were opened.
func (o RunOptions) look() (specs []device.Spec, err error) {
	devs, err := openDevices(o.Devices, o.opens())
	if err == nil {
		_, err = fault.Wrap(devs, o.Faults)
	}
	for _, d := range devs {
		specs = append(specs, d.Spec())
		err = errors.Join(err, d.Close())
	}
	return specs, err
}

// session is a session for measuring steps of so many samples and microbatches.
func (o RunOptions) session(batch, microbatches int) session.Options {
	c := &configs.Config{
		Train: configs.Train{Batch: batch, Microbatches: microbatches, Reduction: string(o.Reduction)},
		Partition: configs.Partition{
			Stages: configs.Stages{Count: o.Stages}, Schedule: o.Schedule, Replicas: o.Replicas, Shard: string(o.Shard),
			Recompute: string(o.Recompute), Costs: configs.CostsFlops,
		},
		Devices: configs.Devices{
			Use: o.Devices, Threads: o.Threads, ShareDevice: o.ShareDevice, Memory: o.DeviceMemory,
			HostMemory: o.HostMemory, SpillDir: o.SpillDir, Timeout: o.Timeout,
		}.WithDefaults(),
	}
	if o.OpByOp {
		c.Devices.OpByOp = configs.OpByOpPlain
	}
	return session.Options{Config: c, Sizes: session.NewSizes(c, batch), Crew: o.Ranks, Trains: true, Costs: o.costs}
}

// refused names the option of a limit on memory that is too low.
func (o RunOptions) refused(err error) error {
	if _, all := errors.AsType[*crew.Verdict](err); all {
		return err
	}
	if small, ok := errors.AsType[*partition.MemoryError](err); ok && o.DeviceMemory != (configs.Memory{}) {
		return fmt.Errorf("%w (now --device-memory %v)", small, o.DeviceMemory)
	}
	return err
}

// runtime makes the session's runtime on devices, which ends with ctx.
func (o RunOptions) runtime(ctx context.Context, s *session.Session, devs []device.Device) (*executor.Runtime, error) {
	rt, err := s.Runtime(ctx, devs, os.TempDir(), residency.TenantOptions{})
	if err != nil {
		return nil, err
	}
	rt.Watch(executor.WatchOptions{Timeout: o.Timeout, Setting: "--timeout", Stop: ctx.Done(), Patience: func() time.Duration { return patience }})
	if o.Ranks == nil { // else others wait for what it skips
		rt.EndWith(ctx)
	}
	return rt, nil
}
