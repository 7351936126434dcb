package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

const (
	// peakSide is the side of the matrices whose product counts as the peak.
	peakSide = 1024
	// peakStart is the first side tried. It tells how long larger ones take.
	peakStart = 256
	// peakLimit bounds one measurement; Run makes two.
	peakLimit = 900 * time.Millisecond
)

// peak is the rate of a product of two side×side matrices.
type peak struct {
	gflops float64
	side   int
}

// measurePeakOfAll is measurePeak, on all ranks at once.
func (o RunOptions) measurePeakOfAll(ctx context.Context) (p peak, err error) {
	if o.Ranks == nil {
		return measurePeak(ctx, o)
	}
	t, what := newTogether(o.Ranks), "the speed of its devices"
	if err := t.agree(ctx, what, nil); err != nil { // all have time now
		return p, err
	}
	p, err = measurePeak(ctx, o)
	return p, t.agree(ctx, what, err)
}

// measurePeak finds the rate of the fastest product, run on all devices at
// once. The side is 1024, or less on devices so slow that 1024 would exceed
// peakLimit.
func measurePeak(ctx context.Context, o RunOptions) (p peak, err error) {
	devs, err := openDevices(o.Devices, o.opens())
	if err != nil {
		return p, err
	}
	defer func() {
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
	}()
	start := time.Now()
	for p.side = peakStart; ; p.side *= 2 {
		repeat := o.peakTime
		if p.side < peakSide {
			repeat = 0
		}
		best, err := measureSquare(ctx, devs, square{p.side, o.Precision == bf16Name, repeat}, start)
		if err != nil {
			return p, fmt.Errorf("measuring the peak: %w", err)
		}
		n := float64(p.side)
		p.gflops = 2 * n * n * n * float64(len(devs)) / best.Seconds() / 1e9
		// Twice the side takes eight times as long, and a first run twice that.
		if p.side == peakSide || time.Since(start)+2*8*best > peakLimit {
			return p, nil
		}
	}
}

// square is a product of two side×side matrices to measure.
type square struct {
	side   int
	bf16   bool
	repeat time.Duration // time to repeat it for; 0 means once
}

// measureSquare is the shortest time of a product run on all devices at once. It
// stops before peakLimit from start.
func measureSquare(ctx context.Context, devs []device.Device, s square, start time.Time) (best time.Duration, err error) {
	ps := make([]*product, 0, len(devs))
	defer func() {
		for _, p := range ps {
			err = errors.Join(err, p.close())
		}
	}()
	for _, d := range devs {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		p, err := newProduct(d, s.side, s.bf16)
		if err != nil {
			return 0, err
		}
		ps = append(ps, p)
	}
	for begin := time.Now(); best == 0 || time.Since(begin) < s.repeat && time.Since(start)+best < peakLimit; {
		t, err := runAll(ctx, ps)
		if err != nil {
			return 0, err
		}
		if best == 0 || t < best {
			best = t
		}
	}
	return best, nil
}

// runAll runs a product on each device at once and returns the time until all
// have ended.
func runAll(ctx context.Context, ps []*product) (time.Duration, error) {
	start := time.Now()
	for _, p := range ps {
		if _, err := p.stream.Launch(p.exe, p.in, p.out, p.scratch); err != nil {
			return 0, err
		}
	}
	for _, p := range ps {
		if err := p.stream.Record().Wait(ctx); err != nil {
			return 0, err
		}
	}
	return max(1, time.Since(start)), nil
}

// product is a matrix product on one device.
type product struct {
	stream  device.Stream
	exe     device.Executable
	in, out []device.Buffer
	scratch device.Buffer
	host    device.HostBuffer
}

// newProduct compiles the product of two random matrices and copies them in.
func newProduct(d device.Device, side int, bf16 bool) (*product, error) {
	p := &product{}
	if err := p.load(d, side, bf16); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *product) load(d device.Device, side int, bf16 bool) error {
	b, m := graph.NewBuilder("peak", 1), shape.F32(side, side)
	y := b.One(ops.MatMul{BF16: bf16}, b.Input("a", m), b.Input("b", m))
	b.Output("product", y)
	g, err := b.Graph()
	if err != nil {
		return err
	}
	if p.exe, err = d.Compile(g, device.CompileOptions{}); err != nil {
		return err
	}
	if p.stream, err = d.NewStream("peak"); err != nil {
		return err
	}
	if p.host, err = d.AllocHost(m.Bytes()); err != nil {
		return err
	}
	rng.Uniform(shape.View[float32](p.host.Bytes()), rng.Named(seed, "peak"), -1, 1)
	for range g.Inputs {
		buf, err := p.stream.Alloc(m, device.Activation)
		if err != nil {
			return err
		}
		p.in = append(p.in, buf)
		if err := p.stream.CopyIn(buf, p.host); err != nil {
			return err
		}
	}
	out, err := p.stream.Alloc(m, device.Activation)
	if err != nil {
		return err
	}
	p.out = append(p.out, out)
	working := shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(p.exe.Memory().Temporary))}
	if p.scratch, err = p.stream.Alloc(working, device.Scratch); err != nil {
		return err
	}
	return p.stream.Record().Wait(context.Background())
}

func (p *product) close() error {
	var errs []error
	if p.stream != nil {
		errs = append(errs, p.stream.Close())
	}
	for _, bufs := range [][]device.Buffer{p.in, p.out} {
		for _, b := range bufs {
			errs = append(errs, b.Free())
		}
	}
	if p.scratch != nil {
		errs = append(errs, p.scratch.Free())
	}
	if p.host != nil {
		errs = append(errs, p.host.Free())
	}
	return errors.Join(errs...)
}
