package cpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/internal/prompt"
)

// Kind is the name of this device kind.
const Kind = "cpu"

func init() {
	device.Register(Kind, Open)
	device.RegisterDescriber(Kind, describe)
	device.RegisterKernels(Kind, func() device.KernelList {
		return device.KernelList{Names: kernels.Names(), About: "each for amx, avx512, avx2 and generic"}
	})
}

// ISAVariable is the environment variable that chooses the instruction set of the
// kernels: amx, avx512, avx2 or generic. Empty is the best the CPU has.
const ISAVariable = "BERTH_CPU"

// memoryBandwidth is a rough figure for copies within a machine, in bytes per
// second.
const memoryBandwidth = 10e9

// Open opens o.Count devices. Threads are divided over them, at least one each. Without
// a budget, each device gets the share of [host.DefaultBudget]. o.Each can give a
// device threads and a budget of its own.
func Open(o device.OpenOptions) ([]device.Device, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	on, err := target()
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	shares, err := o.Shares(prompt.Threads(), host.DefaultBudget)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	var devices []device.Device
	for i, s := range shares {
		d, err := open(i, s.Threads, s.MemoryBytes, on, o)
		if err != nil {
			return nil, errors.Join(append(closeAll(devices), err)...)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// target is the instruction set that the environment variable chooses.
func target() (on work.Target, err error) {
	set, err := isa.Parse(os.Getenv(ISAVariable))
	if err != nil {
		return on, fmt.Errorf("%w: %s: %w", device.ErrEnvironment, ISAVariable, err)
	}
	return work.TargetOf(set), nil
}

// open opens one device.
func open(number, threads int, budget int64, on work.Target, o device.OpenOptions) (device.Device, error) {
	p := newPool(threads)
	d, err := host.New(host.Config{
		Spec: device.Spec{
			ID:             device.ID(fmt.Sprintf("%s%s:%d", o.Prefix, Kind, number)),
			Kind:           Kind,
			Description:    fmt.Sprintf("%d of %d cores, %s", threads, runtime.NumCPU(), on.ISA),
			Numerics:       on.ISA.String(),
			Threads:        threads,
			Cores:          threads,
			OfCores:        runtime.GOMAXPROCS(0),
			MemoryBytes:    budget,
			FlopsPerSecond: float64(threads) * flopsPerThread(on.ISA),
			LinkBytesPerS:  memoryBandwidth,
			PeerCopy:       true,
			HostVisible:    true,
		},
		Options: o,
		Bind:    func(c *fuse.Cluster) (host.Kernel, error) { return bind(p, c, on) },
		Finite:  newFinite(p, on.ISA).all,
		Stop:    p.close,
	})
	if err != nil {
		p.close()
		return nil, err
	}
	return d, nil
}

// describe makes a device of a description. A kernel takes as much memory for any number of threads.
func describe(s device.Spec) (device.Device, error) {
	set, err := isa.Named(s.Numerics)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.ID, err)
	}
	on := work.TargetOf(set)
	return host.New(host.Config{
		Spec: s, Described: true,
		Bind: func(c *fuse.Cluster) (host.Kernel, error) { return bind(nil, c, on) },
	})
}

func closeAll(devices []device.Device) (errs []error) {
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	return errs
}

// flopsPerThread is the order of magnitude of float32 products on one core.
func flopsPerThread(set isa.ISA) float64 {
	switch set {
	case isa.AMX:
		return 400e9
	case isa.AVX512:
		return 200e9
	case isa.AVX2:
		return 100e9
	}
	return 5e9
}

// bound is a kernel with the pool it runs on. It runs under the device's launch lock,
// so its arguments can live in it.
type bound struct {
	kernel work.Kernel
	pool   *pool
	args   work.Args
}

func bind(p *pool, c *fuse.Cluster, on work.Target) (host.Kernel, error) {
	k, err := kernels.NewCluster(c, on)
	if err != nil {
		return nil, err
	}
	return &bound{kernel: k, pool: p}, nil
}

// ScratchBytes implements [host.Kernel].
func (b *bound) ScratchBytes() int64 { return b.kernel.ScratchBytes() }

// Packs implements [host.Packer].
func (b *bound) Packs() (input int, bytes int64, layout string) {
	c := kernels.PackCacheOf(b.kernel)
	return c.Input, c.Bytes, c.Layout
}

// UsePacked implements [host.Packer].
func (b *bound) UsePacked(memory []byte, valid bool) { b.args.Cache, b.args.Cached = memory, valid }

// Run runs the kernel on the device's threads.
func (b *bound) Run(in, out [][]byte, scratch []byte) error {
	b.args.In, b.args.Out, b.args.Scratch = in, out, scratch
	return b.kernel.Run(b.pool, &b.args)
}
