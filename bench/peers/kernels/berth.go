package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

const berthName = "Berth"

// memory is the address space of Berth's device.
const memory = 4 << 30

// berth runs kernels as a step does: an executable of one node, launched on a device. What counts is the time
// of the kernel, as the device tells it to `trainer bench --profile`.
type berth struct {
	device device.Device
	stream device.Stream

	mu   sync.Mutex
	took time.Duration // of the kernels since it was read
}

func newBerth(threads int) (*berth, error) {
	b := &berth{}
	devices, err := device.Open(cpu.Kind, device.OpenOptions{Count: 1, Threads: threads, MemoryBytes: memory, OnKernel: b.add})
	if err != nil {
		return nil, err
	}
	b.device = devices[0]
	b.stream, err = b.device.NewStream("kernels")
	return b, err
}

// add is told of every kernel.
func (b *berth) add(k device.KernelSpan) {
	b.mu.Lock()
	b.took += k.End.Sub(k.Start)
	b.mu.Unlock()
}

// read is the time of the kernels since the last call.
func (b *berth) read() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.took
	b.took = 0
	return t
}

func (b *berth) version() string { return b.device.Spec().Description }

func (b *berth) ways(r *row) ([]job, error) {
	j := &launch{b: b, row: r}
	if err := j.load(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return []job{j}, nil
}

// launch is a row on Berth's device.
type launch struct {
	b       *berth
	row     *row
	exe     device.Executable
	in, out []device.Buffer
	scratch device.Buffer
	second  device.HostBuffer // the second input, copied in anew before each run; nil if it stays
	hosts   []device.HostBuffer
}

func (l *launch) load() error {
	in, err := l.inputs()
	if err != nil {
		return err
	}
	if err := l.prepare(l.row.op, l.row.in); err != nil {
		return err
	}
	for i, m := range l.row.in {
		h, err := l.toDevice(l.in[i], m, in[i])
		if err != nil {
			return err
		}
		if _, product := l.row.op.(ops.MatMul); product && i == 1 && l.row.bf16() && !l.row.kept {
			l.second = h
		}
	}
	return l.b.stream.Record().Wait(context.Background())
}

// prepare compiles an op alone and allocates its memory.
func (l *launch) prepare(op graph.Op, in []shape.Meta) error {
	gb := graph.NewBuilder("kernel", 1)
	var vs []*graph.Value
	for i, m := range in {
		vs = append(vs, gb.Input(fmt.Sprint("in", i), m))
	}
	for i, v := range gb.Apply(op, vs...) {
		gb.Output(fmt.Sprint("out", i), v)
	}
	g, err := gb.Graph()
	if err != nil {
		return err
	}
	if l.exe, err = l.b.device.Compile(g, device.CompileOptions{}); err != nil {
		return err
	}
	alloc := func(m shape.Meta, to *[]device.Buffer) error {
		buf, err := l.b.stream.Alloc(m, device.Activation)
		if err == nil {
			*to = append(*to, buf)
		}
		return err
	}
	for _, v := range g.Inputs {
		if err := alloc(v.Meta, &l.in); err != nil {
			return err
		}
	}
	for _, v := range g.Outputs {
		if err := alloc(v.Meta, &l.out); err != nil {
			return err
		}
	}
	l.scratch, err = l.b.stream.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(l.exe.Memory().Temporary))}, device.Scratch)
	return err
}

// toDevice copies a tensor to the device.
func (l *launch) toDevice(buf device.Buffer, m shape.Meta, from []byte) (device.HostBuffer, error) {
	h, err := l.b.device.AllocHost(m.Bytes())
	if err != nil {
		return nil, err
	}
	l.hosts = append(l.hosts, h)
	copy(h.Bytes(), from)
	return h, l.b.stream.CopyIn(buf, h)
}

// inputs are the op's inputs: those given, and what ops before it make of them.
func (l *launch) inputs() ([][]byte, error) {
	given := l.row.given()
	bytes := func(xs ...[]float32) (all [][]byte) {
		for _, x := range xs {
			all = append(all, shape.Bytes(x))
		}
		return all
	}
	switch op := l.row.op.(type) {
	case ops.LayerNormGrad:
		mean, rstd := statisticsOf(given[0], len(given[1]))
		return bytes(given[0], given[1], mean, rstd, given[2]), nil
	case ops.RMSNormGrad:
		_, rstd := statisticsOf(given[0], len(given[1]))
		return bytes(given[0], given[1], rstd, given[2]), nil
	case ops.MaxPool2DGrad:
		made, err := l.b.once(l.row.of.Op, graph.Metas(l.row.of.In), given[:1])
		if err != nil {
			return nil, err
		}
		return [][]byte{made[1], shape.Bytes(given[1])}, nil
	case ops.AttentionGrad:
		made, err := l.b.once(ops.Attention(op), l.row.in[:1], given[:1])
		if err != nil {
			return nil, err
		}
		return [][]byte{shape.Bytes(given[0]), made[0], made[1], shape.Bytes(given[1])}, nil
	}
	return bytes(given...), nil
}

// once runs an op once, and gives its outputs.
func (b *berth) once(op graph.Op, metas []shape.Meta, in [][]float32) (out [][]byte, err error) {
	l := &launch{b: b, row: &row{op: op}}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.prepare(op, metas); err != nil {
		return nil, err
	}
	for i, x := range in {
		if _, err := l.toDevice(l.in[i], metas[i], shape.Bytes(x)); err != nil {
			return nil, err
		}
	}
	if _, err := l.run(); err != nil {
		return nil, err
	}
	for _, o := range l.out {
		x, err := l.fetch(o)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

func (l *launch) how() string { return "" }

// run launches the kernel on this goroutine where it can: the device's threads then wait for no more than they do
// between the kernels of a step.
func (l *launch) run() (time.Duration, error) {
	if l.second != nil {
		if err := l.b.stream.CopyIn(l.in[1], l.second); err != nil {
			return 0, err
		}
	}
	l.b.read()
	_, ended, err := l.b.stream.(device.Runner).Run(l.exe, l.in, l.out, l.scratch)
	if err == nil && !ended {
		err = l.queue()
	}
	return l.b.read(), err
}

// queue launches the kernel behind what is queued, and waits for it.
func (l *launch) queue() error {
	done, err := l.b.stream.Launch(l.exe, l.in, l.out, l.scratch)
	if err != nil {
		return err
	}
	return done.Wait(context.Background())
}

// results leave out what only Berth makes: statistics, and places of maxima.
func (l *launch) results() (all [][]float32, err error) {
	n := 1
	switch l.row.op.(type) {
	case ops.LayerNormGrad:
		n = 3
	case ops.RMSNormGrad:
		n = 2
	}
	for _, o := range l.out[:n] {
		x, err := l.fetch(o)
		if err != nil {
			return nil, err
		}
		all = append(all, shape.View[float32](x))
	}
	return all, nil
}

// fetch copies a tensor from the device.
func (l *launch) fetch(buf device.Buffer) ([]byte, error) {
	h, err := l.b.device.AllocHost(buf.Meta().Bytes())
	if err != nil {
		return nil, err
	}
	done, err := l.b.stream.CopyOut(h, buf)
	if err == nil {
		err = done.Wait(context.Background())
	}
	x := shape.Bytes(append([]float32(nil), shape.View[float32](h.Bytes())...))
	return x, errors.Join(err, h.Free())
}

func (l *launch) close() error {
	var errs []error
	for _, b := range append(append([]device.Buffer{l.scratch}, l.in...), l.out...) {
		if b != nil {
			errs = append(errs, b.Free(l.b.stream.Record()))
		}
	}
	for _, h := range l.hosts {
		errs = append(errs, h.Free())
	}
	if l.exe != nil {
		l.exe.Release()
	}
	return errors.Join(errs...)
}

// normEps is what norms add to variances, in the gradients too.
const normEps = 1e-5

// statisticsOf are the mean and 1/sqrt(variance + eps) of each row.
func statisticsOf(x []float32, width int) (mean, rstd []float32) {
	mean, rstd = statistics(x, width)
	for i, v := range rstd {
		rstd[i] = float32(1 / math.Sqrt(float64(v)+normEps))
	}
	return mean, rstd
}
