package timing

import (
	"context"
	"errors"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/costs"
	"github.com/berth-ml/berth/residency"
)

// A call's time is the median of several rounds.
const (
	callsInRow = 500 // launches of an op in a round
	callRounds = 5
)

// Calls times calls op by op of next to no work: what a call takes from the lease of its
// tensors to the end of its launch, while others are queued. Equal devices are timed once.
func Calls(ctx context.Context, devs []device.Device, o Options) (map[costs.Key]float64, error) {
	times, all := map[costs.Key]float64{}, specs(devs)
	for d := range devs {
		k := costs.CallKey(costs.On(all, d))
		if _, timed := times[k]; timed || o.knows(k) {
			continue
		}
		seconds, err := callSeconds(ctx, devs, d)
		if errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, residency.ErrBudget) || errors.Is(err, device.ErrUnsupported) {
			continue // calls keep their estimate
		}
		if err != nil {
			return nil, err
		}
		times[k] = seconds
	}
	return times, nil
}

// callSeconds is the time of a call on devs[d].
func callSeconds(ctx context.Context, devs []device.Device, d int) (seconds float64, err error) {
	u, err := residency.Open(devs, residency.ManagerOptions{Name: "the timing of calls"}, residency.TenantOptions{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	c, err := newCaller(devs[d], d, u)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var rounds []float64
	for i := 0; i <= callRounds; i++ {
		took, err := c.row(ctx)
		if err != nil {
			return 0, err
		}
		if i > 0 { // the first one copies in
			rounds = append(rounds, took)
		}
	}
	return median(rounds), nil
}

// caller calls an op that doubles a small tensor.
type caller struct {
	tenant *residency.Tenant
	stream device.Stream
	exe    device.Executable
	needs  []residency.Need
	lease  residency.Lease
}

func newCaller(dev device.Device, d int, u *residency.Tenant) (*caller, error) {
	b := graph.NewBuilder("call", 1)
	x := b.Input("x", shape.F32(16))
	b.Output("y", ops.Add(b, x, x))
	g, err := b.Graph()
	if err != nil {
		return nil, err
	}
	t, err := u.Declare(residency.Key{Value: "x"}, x.Meta, device.Activation)
	if err == nil {
		err = u.Fill(t, make([]byte, x.Meta.Bytes()))
	}
	if err != nil {
		return nil, err
	}
	c := &caller{tenant: u, needs: []residency.Need{{Tensor: t, Device: d, Mode: residency.ReadWrite}}}
	if c.exe, err = dev.Compile(g, device.CompileOptions{Alias: []int{0}, CheckFinite: true}); err != nil {
		return nil, err
	}
	if c.stream, err = dev.NewStream("calls"); err != nil {
		c.exe.Release()
		return nil, err
	}
	return c, nil
}

// row is the seconds of a call among as many as callsInRow.
func (c *caller) row(ctx context.Context) (seconds float64, err error) {
	begin := time.Now()
	var done device.Event
	for range callsInRow {
		if done, err = c.call(ctx); err != nil {
			return 0, err
		}
	}
	err = ended(ctx, done)
	return time.Since(begin).Seconds() / callsInRow, err
}

// call queues one call.
func (c *caller) call(ctx context.Context) (done device.Event, err error) {
	l := &c.lease
	if err := c.tenant.Acquire(ctx, c.stream, c.needs, c.exe.Memory().Temporary, l); err != nil {
		return done, err
	}
	if done, err = c.stream.Launch(c.exe, l.Buffers, l.Buffers, l.Scratch); err != nil {
		return done, errors.Join(err, c.tenant.Abandon(l))
	}
	return done, c.tenant.Release(l, done)
}

func (c *caller) close() error {
	err := c.stream.Close()
	c.exe.Release()
	return err
}
