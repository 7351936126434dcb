package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/balance"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency"
)

// held is what the sessions of a model have in common, one after the other: who has the devices,
// and who is told of what they do.
type held struct {
	shared  *Share     // nil: the devices are the model's own
	crew    *crew.Crew // the ranks of the model; nil: this process is alone
	asRanks int        // ranks that there would be; 0: none
	user    user
	gate    *executor.Gate // at which calls stand still
	kept    atomic.Bool    // a training step by step, or a service, has the devices
	closed  atomic.Bool    // its devices are

	memory atomic.Pointer[residency.Manager] // of own devices, that of the newest runtime; nil before

	told   func(device.Span) // of each operation; nil: nobody is
	spans  trace.Spans
	traced atomic.Pointer[trace.Spans] // of the step that somebody asked for; nil: nobody has
	copies trace.Copies
	passes balance.Clock
	debug  trace.Debug  // as BERTH_DEBUG asks
	calls  *trace.Calls // nil unless devices.op_by_op has log
}

func hold(o Options) (*held, error) {
	level, err := trace.LevelAsked()
	if err != nil {
		return nil, err
	}
	h := &held{shared: o.Shared, crew: o.Crew, asRanks: o.AsRanks, gate: executor.NewGate(), told: o.OnSpan, debug: trace.Debug{Level: level, Out: os.Stderr}}
	h.user.tell = listener{span: h.onSpan, kernel: h.onKernel, kernels: h.wantsKernels}
	if o.OnKernel != nil {
		h.user.tell.kernel, h.user.tell.kernels = o.OnKernel, nil
	}
	return h, nil
}

// open opens a config's devices, or takes the shared ones that are left. at is the index of each
// in the config of its rank, and of its rank; of is nil without ranks.
func (h *held) open(c *configs.Config) (devs []device.Device, at, of []int, err error) {
	if c.Devices.Runs(configs.OpByOpLog) {
		h.calls = trace.NewCalls(os.Stderr)
	}
	h.closed.Store(false)
	if h.shared != nil {
		if devs, at = h.shared.left(); len(devs) == 0 {
			return nil, nil, nil, fmt.Errorf("%w: all shared devices are lost: open new ones with OpenDevices", device.ErrLost)
		}
		return devs, at, nil, h.shared.enlist(&h.user, c.Name)
	}
	if h.crew != nil {
		part := h.crew.Part()
		own := c.Devices
		own.Threads = cmp.Or(own.Threads, part.Threads)
		devs, err = openDevices(own, h.user.tell, ofRank{fmt.Sprintf("%d/", h.crew.Rank()), part.Of})
		if err != nil {
			err = refused(c, err)
		}
		return h.openOfRanks(devs, err)
	}
	if h.asRanks > 0 {
		devs, err = openDevices(c.Devices, h.user.tell, ofRank{"0/", 1})
		return h.asOfRanks(devs, err)
	}
	if devs, err = openDevices(c.Devices, h.user.tell, ofRank{}); err != nil {
		return nil, nil, nil, err
	}
	for i := range devs {
		at = append(at, i)
	}
	return devs, at, nil, nil
}

// close closes devices that are the model's own, and leaves shared ones. A second call does
// nothing.
func (h *held) close(devs []device.Device) (err error) {
	if h.closed.Swap(true) {
		return nil
	}
	if h.shared == nil {
		err = closeAll(devs)
	} else {
		h.shared.dismiss(&h.user)
	}
	h.calls.Close()
	return err
}

// onSpan takes an operation of a device.
func (h *held) onSpan(x device.Span) {
	h.spans.Add(x)
	if t := h.traced.Load(); t != nil {
		t.Add(x)
	}
	h.copies.Add(x)
	h.passes.Add(x)
	h.calls.Add(x)
	if h.told != nil {
		h.told(x)
	}
}

// onKernel takes a kernel of a device.
func (h *held) onKernel(x device.KernelSpan) {
	h.spans.Kernel(x)
	if t := h.traced.Load(); t != nil {
		t.Kernel(x)
	}
}

// wantsKernels reports whether somebody collects kernels.
func (h *held) wantsKernels() bool { return h.spans.Collecting() || h.traced.Load() != nil }

// onLaunch takes a task that is queued.
func (h *held) onLaunch(x executor.Launched) {
	h.spans.Launched(x)
	if t := h.traced.Load(); t != nil {
		t.Launched(x)
	}
	h.calls.Launched(x)
}

// Enter keeps the devices open until leave is called. On shared devices, a session has
// one call at a time: a second one could wait for memory of the first for ever.
func (s *Session) Enter() (leave func(), err error) {
	calls, end := s.held.user.enter()
	if s.held.kept.Load() || calls > 1 {
		end()
		return nil, errs.ErrInUse
	}
	pass, err := s.held.gate.Enter(context.Background()) // at once: there is no other call
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		pass()
		end()
	}, nil
}

// Gate is where the session's call under way stands still while somebody asks for that. It is that of the
// sessions without lost devices, too.
func (s *Session) Gate() *executor.Gate { return s.held.gate }

// Keep is Enter for a training step by step, or a service, which has the devices until leave.
func (s *Session) Keep() (leave func(), err error) {
	h := s.held
	calls, end := h.user.enter()
	if calls > 1 || !h.kept.CompareAndSwap(false, true) {
		end()
		return nil, errs.ErrInUse
	}
	return func() {
		h.kept.Store(false)
		end()
	}, nil
}

// Close closes the devices, unless a call uses them. It fails if anything on
// them was not freed. A second call does nothing.
func (s *Session) Close() error {
	if s.held.user.busy() {
		return errs.ErrInUse
	}
	return s.held.close(s.Devices)
}

// GiveBackBut is Close within a call, where the device at i is lost and closed already.
func (s *Session) GiveBackBut(i int) error {
	return s.held.close(slices.Delete(slices.Clone(s.Devices), i, i+1))
}

// Spans are the operations of the devices, where somebody collects them.
func (s *Session) Spans() *trace.Spans { return &s.held.spans }

// Copies are the times of copies.
func (s *Session) Copies() *trace.Copies { return &s.held.copies }

// Balance is how a training's replicas share microbatches, and whether blocks move between stages; nil: all keep their part of
// the plan. Blocks stay where the user lists them, and where others use the devices.
func (s *Session) Balance() *executor.Balance {
	if s.Config.Partition.Rebalance == configs.RebalanceOff {
		return nil
	}
	moves := !s.Shared() && s.Config.Partition.Stages.Blocks == nil
	return &executor.Balance{Clock: &s.held.passes, Within: s.Shared(), Stages: moves}
}

// Debug writes what BERTH_DEBUG asks for.
func (s *Session) Debug() *trace.Debug { return &s.held.debug }

// OnLaunch has a runtime tell the session's trace of the tasks that it queues.
func (s *Session) OnLaunch(rt *executor.Runtime) { rt.OnLaunch(s.held.onLaunch) }

// Trace has t collect what the devices do for a runtime from now on, beside what others collect; nil ends that. It is
// for the goroutine that uses the runtime.
func (s *Session) Trace(rt *executor.Runtime, t *trace.Spans) {
	h := s.held
	h.traced.Store(t)
	if t != nil {
		rt.Residency.Ledger().Hear(t.Moved)
		s.OnLaunch(rt)
		return
	}
	rt.Residency.Ledger().Hear(nil)
	if h.calls == nil && !h.spans.Collecting() {
		rt.OnLaunch(nil)
	}
}
