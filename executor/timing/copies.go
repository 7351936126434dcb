package timing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/costs"
)

// Copies times copies between devices of a kind, small and large ones, as a pipeline
// has them: a launch, a copy of its result, a launch on the other device, and back.
// What this takes beside the launches is mostly the time in which a device that waits
// wakes up. Equal devices are timed once.
func Copies(ctx context.Context, devs []device.Device, tasks []Task, o Options) (times map[costs.Key]float64, err error) {
	wanted := copiesToTime(devs, o)
	if len(wanted) == 0 || len(tasks) == 0 {
		return nil, nil
	}
	m := &measurement{o: Options{Known: func(costs.Key) bool { return true }}}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.open(ctx, devs, tasks); err != nil {
		return nil, err
	}
	times = map[costs.Key]float64{}
	for _, c := range wanted {
		if len(m.workers[c.from].tasks) == 0 || len(m.workers[c.to].tasks) == 0 {
			continue // it runs none of them
		}
		seconds, err := m.backAndForth(ctx, c)
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
	all := make([]device.Spec, len(devs))
	for i, d := range devs {
		all[i] = d.Spec()
	}
	for d := range devs {
		from := slices.IndexFunc(all, func(s device.Spec) bool { return s.Kind == all[d].Kind && s.ID != all[d].ID && s.PeerCopy })
		if from < 0 {
			continue
		}
		for _, bytes := range []int64{costs.SmallCopy, costs.LargeCopy} {
			k := costs.CopyKey(costs.On(all, d), bytes)
			twice := slices.ContainsFunc(list, func(c timedCopy) bool { return c.key == k })
			if !twice && (o.Known == nil || !o.Known(k)) {
				list = append(list, timedCopy{from, d, bytes, k})
			}
		}
	}
	return list
}

// side is one of two devices between which bytes go back and forth.
type side struct {
	*worker
	task   *launched
	copies device.Stream
	buffer device.Buffer
}

// The series that are timed, and the copies of each.
const (
	copySeries = 7
	copiesEach = 8
)

// backAndForth is the time of a copy between two launches: the median of several
// series.
func (m *measurement) backAndForth(ctx context.Context, c timedCopy) (seconds float64, err error) {
	var sides [2]side
	defer func() {
		for i := range sides {
			err = errors.Join(err, sides[i].end())
		}
	}()
	for i, d := range []int{c.from, c.to} {
		if sides[i], err = m.workers[d].side(ctx, c.bytes); err != nil {
			return 0, err
		}
	}
	var times []float64
	for range copySeries {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		t, err := series(ctx, sides)
		if err != nil {
			return 0, err
		}
		times = append(times, t)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// side readies a worker for copies.
func (w *worker) side(ctx context.Context, bytes int64) (s side, err error) {
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
	s.buffer, err = w.stream.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(bytes))}, device.Activation)
	if err == nil {
		err = w.zero(ctx, s.buffer, bytes)
	}
	return s, err
}

// shortest is the task that takes the least time, of those that take longer than a
// device that waits stays awake.
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

// series sends bytes back and forth, and gives the seconds of one copy.
func series(ctx context.Context, sides [2]side) (seconds float64, err error) {
	var done device.Event
	begin, worked := time.Now(), sides[0].stream.Busy()+sides[1].stream.Busy()
	for i := range copiesEach {
		from, to := &sides[i%2], &sides[1-i%2]
		if done, err = from.task.launch(from.stream, done); err != nil {
			return 0, err
		}
		if err := to.copies.WaitFor(done); err != nil {
			return 0, err
		}
		if err := to.copies.CopyPeer(to.buffer, from.buffer); err != nil {
			return 0, err
		}
		done = to.copies.Record()
	}
	if done, err = sides[copiesEach%2].task.launch(sides[copiesEach%2].stream, done); err != nil {
		return 0, err
	}
	if err := done.Wait(context.WithoutCancel(ctx)); err != nil {
		return 0, err
	}
	launches := float64(sides[0].stream.Busy()+sides[1].stream.Busy()-worked) / 1e9
	return max(0, time.Since(begin).Seconds()-launches) / copiesEach, nil
}

// zero fills a buffer.
func (w *worker) zero(ctx context.Context, b device.Buffer, bytes int64) error {
	h, err := w.dev.AllocHost(bytes)
	if err != nil {
		return err
	}
	clear(h.Bytes())
	if err = w.stream.CopyIn(b, h); err == nil {
		err = w.stream.Record().Wait(context.WithoutCancel(ctx))
	}
	return errors.Join(err, h.Free())
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
