package timing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/costs"
)

// Copies times copies between devices, small and large ones, as a pipeline has them: a
// launch, a copy of its result, and a launch on the other device, which waits for it. Those
// between kinds go through the host. What this takes in addition to the launches is mostly the time
// in which the other device wakes up. Equal devices are timed once.
func Copies(ctx context.Context, devs []device.Device, tasks []Task, o Options) (times map[costs.Key]float64, err error) {
	wanted := copiesToTime(devs, o)
	if len(wanted) == 0 || len(tasks) == 0 {
		return nil, nil
	}
	ws, err := openWorkers(ctx, devs, tasks, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	times = map[costs.Key]float64{}
	for _, c := range wanted {
		from, to := ws[c.from], ws[c.to]
		if len(from.tasks) == 0 || len(to.tasks) == 0 {
			continue // it runs none of them
		}
		seconds, err := between(ctx, from, to, c.bytes)
		if errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, device.ErrNonFinite) {
			return nil, nil // copies keep their estimate
		}
		if err != nil {
			return nil, err
		}
		times[c.key] = seconds
	}
	return times, nil
}

// timedCopy is a copy to time. Devices are indices.
type timedCopy struct {
	from, to int
	bytes    int64
	key      costs.Key
}

// copiesToTime are the copies whose time is not known, once for equal devices.
func copiesToTime(devs []device.Device, o Options) (list []timedCopy) {
	all := specs(devs)
	for d := range devs {
		for from := range devs {
			a, b := &all[from], &all[d]
			if from == d || a.Kind == b.Kind && !a.PeerCopy || a.Kind != b.Kind && !(a.CopyOut && b.CopyOut) {
				continue
			}
			for _, bytes := range []int64{costs.SmallCopy, costs.LargeCopy} {
				k := costs.CopyKey(costs.Between(all, from, d), bytes)
				twice := slices.ContainsFunc(list, func(c timedCopy) bool { return c.key == k })
				if !twice && !o.knows(k) {
					list = append(list, timedCopy{from, d, bytes, k})
				}
			}
		}
	}
	return list
}

// side is one of two devices between which bytes go.
type side struct {
	*worker
	task   *launched
	copies device.Stream
	buffer device.Buffer
}

// copyRounds are the copies that are timed, after a first one that is not. Where launches
// take long, as many have to do as fit in copyTime.
const (
	copyRounds = 15
	copyTime   = 100 * time.Millisecond
)

// between is the time of a copy between two launches: the median of several.
func between(ctx context.Context, from, to *worker, size int64) (seconds float64, err error) {
	var sides [2]side
	p := pair{from: &sides[0], to: &sides[1]}
	defer func() {
		for i := range sides {
			err = errors.Join(err, sides[i].end())
		}
		if p.host != nil {
			err = errors.Join(err, p.host.Free())
		}
	}()
	for i, w := range []*worker{from, to} {
		if sides[i], err = w.side(ctx, size); err != nil {
			return 0, err
		}
	}
	if err := p.takeHost(size); err != nil {
		return 0, err
	}
	var times []float64
	for i, begin := 0, time.Now(); i <= copyRounds && (i <= fewRounds || time.Since(begin) < copyTime); i++ {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		t, err := p.copySeconds(ctx)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, t)
		}
	}
	return max(leastCopy, median(times)), nil
}

// side readies a worker for copies.
func (w *worker) side(ctx context.Context, size int64) (s side, err error) {
	s.worker = w
	t, err := w.shortest(ctx)
	if err != nil {
		return s, err
	}
	if s.task, err = w.ready(ctx, t); err != nil {
		return s, err
	}
	if s.copies, err = w.dev.NewStream("copies"); err != nil {
		return s, err
	}
	s.buffer, err = w.stream.Alloc(bytes(size), device.Activation)
	if err == nil {
		err = w.fill(ctx, s.buffer, func(dst []byte) { clear(dst) })
	}
	return s, err
}

// shortest is the shortest task that takes longer than a waiting device stays awake: only
// then is the time to wake it part of what is measured.
func (w *worker) shortest(ctx context.Context) (best *timed, err error) {
	const awake = 100e-6
	least := 0.0
	for _, t := range w.tasks {
		seconds, err := w.time(ctx, t)
		if err != nil {
			return nil, err
		}
		if best == nil || seconds >= awake && (seconds < least || least < awake) || seconds > least && least < awake {
			best, least = t, seconds
		}
	}
	return best, nil
}

// pair is two devices, the second of which waits for bytes of the first one.
type pair struct {
	from, to *side
	host     device.HostBuffer // between devices of different kinds; nil between others
}

// takeHost takes host memory for copies between devices of different kinds. The device that
// does not address host memory itself allocates it.
func (p *pair) takeHost(bytes int64) (err error) {
	from, to := p.from.dev.Spec(), p.to.dev.Spec()
	if from.Kind == to.Kind {
		return nil
	}
	dev := p.from.dev
	if from.HostVisible {
		dev = p.to.dev
	}
	p.host, err = dev.AllocHost(bytes)
	return err
}

// copySeconds is the time from the end of a launch until the other device begins one that
// needs its bytes: that of both launches and the copy, less that of each launch. The first
// device has one more launch to go on with, as in a pipeline: another thread must then wake
// up for those who wait. At the end of each measured time, the device comes to rest.
func (p pair) copySeconds(ctx context.Context) (seconds float64, err error) {
	begin, before := time.Now(), p.to.stream.Busy()
	done, err := p.from.launch(device.Event{})
	if err != nil {
		return 0, err
	}
	if _, err := p.from.launch(device.Event{}); err != nil {
		return 0, err
	}
	if done, err = p.copy(done); err != nil {
		return 0, err
	}
	if done, err = p.to.launch(done); err != nil {
		return 0, err
	}
	whole, err := p.wait(ctx, begin, done)
	if err != nil {
		return 0, err
	}
	second := float64(p.to.stream.Busy()-before) / 1e9
	begin = time.Now()
	if done, err = p.from.launch(device.Event{}); err != nil {
		return 0, err
	}
	first, err := p.wait(ctx, begin, done)
	return whole - second - first, err
}

// wait is the seconds from begin until an event has happened. It returns once both devices
// are at rest.
func (p pair) wait(ctx context.Context, begin time.Time, done device.Event) (seconds float64, err error) {
	ctx = context.WithoutCancel(ctx) // what is queued ends soon
	if err := done.Wait(ctx); err != nil {
		return 0, err
	}
	seconds = time.Since(begin).Seconds()
	return seconds, errors.Join(p.from.stream.Record().Wait(ctx), p.to.stream.Record().Wait(ctx))
}

// copy queues the copy after an event.
func (p pair) copy(after device.Event) (device.Event, error) {
	if p.host != nil {
		return p.copyThroughHost(after)
	}
	if err := p.to.copies.WaitFor(after); err != nil {
		return device.Event{}, err
	}
	err := p.to.copies.CopyPeer(p.to.buffer, p.from.buffer)
	return p.to.copies.Record(), err
}

// copyThroughHost queues a copy to the host, and one from there.
func (p pair) copyThroughHost(after device.Event) (device.Event, error) {
	if err := p.from.copies.WaitFor(after); err != nil {
		return device.Event{}, err
	}
	out, err := p.from.copies.CopyOut(p.host, p.from.buffer)
	if err != nil {
		return device.Event{}, err
	}
	if err := p.to.copies.WaitFor(out); err != nil {
		return device.Event{}, err
	}
	err = p.to.copies.CopyIn(p.to.buffer, p.host)
	return p.to.copies.Record(), err
}

// launch queues the task of the side after an event.
func (s *side) launch(after device.Event) (device.Event, error) {
	return s.task.launch(s.stream, after)
}

// end frees what a side has. It is whole even where that could not be readied.
func (s *side) end() (err error) {
	if s.task != nil {
		err = s.task.end(s.stream)
	}
	if s.buffer != nil {
		after := []device.Event{s.stream.Record()}
		if s.copies != nil {
			after = append(after, s.copies.Record())
		}
		err = errors.Join(err, s.buffer.Free(after...))
	}
	if s.copies != nil {
		err = errors.Join(err, s.copies.Close())
	}
	return err
}
