package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/residency"
)

// Runtime runs the programs of one training on devices: it has one compute stream
// on each, and the residency of their tensors. It does not own the devices, and may
// share them: see [Devices.Join]. Whoever made it closes it. Use it and its programs from one
// goroutine.
type Runtime struct {
	Devices   []device.Device // as plans count them; nil for one that no plan uses, or of another rank
	Residency *residency.Tenant
	on        []usedDevice              // per device
	alone     bool                      // nobody else uses its residency's manager
	compute   []device.Stream           // of the devices that are used
	exchange  *exchange                 // with other ranks; nil: there are none
	programs  map[string]*Program       // that are loaded, by LoadOptions.Net
	users     map[*residency.Tensor]int // per variable: the programs that have it
	steps     uint64                    // of all programs, to order those under way
	expected  *expansion                // whose uses residency knows
	failure   error                     // the cause that made the runtime unusable; nil before
	known     error                     // failure, and the failures of all queues at that time
	copies    []failedCopy              // not yet returned by Retried
	watching  *watchdog                 // nil unless Watch was called
	launched  func(Launched)            // nil unless OnLaunch was called
	reads     bool                      // ReadResults was called
	ending    func() bool               // undoes EndWith; nil unless that was called
	compiler  compiler
	refused   []error // of programs that are closed, not yet returned by Refused
	rest      rest
	closed    bool
}

// usedDevice is a device as the runtime uses it. The runtime owns it, and its stream.
type usedDevice struct {
	index   int           // in the residency's list; -1: the device is not used
	compute device.Stream // nil if it is not used
}

// Watch gives up each device on which one operation runs for too long: what is
// queued there fails, with an error that names the operation. Watching ends with
// Close. Until the first call, the runtime watches with [DefaultTimeout]; a later one
// takes the place of the one before.
func (r *Runtime) Watch(o WatchOptions) {
	if r.closed {
		return
	}
	r.watching.end()
	r.watching = nil
	if o.Timeout > 0 || o.Stop != nil {
		used := slices.DeleteFunc(slices.Clone(r.Devices), func(d device.Device) bool { return d == nil })
		r.watching = watch(used, o)
	}
}

// Launched is a task of a step that was queued.
type Launched struct {
	Event device.Event // its end, as device.Span has it
	Net   string       // LoadOptions.Net of the program
	Step  Ticket
	Task  string          // "s0.F2"
	Kinds []schedule.Kind // the passes that it runs, in their order
	Call  *calls.Call     // the op; nil for a whole segment
	// Results are the op's results in words, "NAME f32[2]: …", where ReadResults asked for them.
	Results []string
}

// OnLaunch tells f, unless it is nil, of each task that is queued from now on, from the goroutine that
// queues it.
func (r *Runtime) OnLaunch(f func(Launched)) { r.launched = f }

// ReadResults has each op that runs by itself waited for, and its results read and told in [Launched]. The
// ledger counts the bytes as debug.
func (r *Runtime) ReadResults() { r.reads = true }

// Compiled counts the executables that the runtime's programs asked for.
func (r *Runtime) Compiled() Compiled { return r.compiler.compiled() }

// usable is nil while steps can be queued, else the reason why not.
func (r *Runtime) usable() error {
	if r.closed {
		return ErrClosed
	}
	return r.failure
}

// Close waits for queued work and frees streams and tensors. It does not repeat a
// failure that Step or Wait reported, nor other failures from before that report,
// nor their consequences on other streams. A second call does nothing.
func (r *Runtime) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.stopEnding()
	for _, p := range r.programs {
		p.release()
	}
	var errs []error
	for _, s := range r.compute {
		errs = append(errs, s.Close())
	}
	errs = append(errs, r.exchange.close()...)
	for _, p := range r.programs {
		errs = append(errs, p.freeHosts())
	}
	errs = append(errs, r.Residency.Close())
	if r.alone {
		errs = append(errs, r.Residency.Manager.Close())
	}
	r.watching.end() // no sooner: closing waits for the devices
	return errors.Join(r.unknown(errs)...)
}

// unknown leaves the errors that are not in known.
func (r *Runtime) unknown(errs []error) (left []error) {
	for _, err := range errs {
		joined, ok := err.(interface{ Unwrap() []error })
		switch {
		case r.known == nil:
			left = append(left, err)
		case ok:
			left = append(left, r.unknown(joined.Unwrap())...)
		case !errors.Is(r.known, err):
			left = append(left, err)
		}
	}
	return left
}

// expect tells residency the order in which a step uses tensors. When memory is
// short, residency can then evict the one needed last. It assumes that the steps
// to come are like this one.
func (r *Runtime) expect(e *expansion) {
	if r.expected != e {
		r.Residency.SetUses(e.uses)
		r.expected = e
	}
}

// Worked is the time that all compute streams together have worked so far.
func (r *Runtime) Worked() (total time.Duration) {
	for _, s := range r.compute {
		total += time.Duration(s.Busy())
	}
	return total
}

// Memory is the memory of a device that the runtime's tensors take, with those of its base: see
// [residency.Tenant.Memory].
func (r *Runtime) Memory(dev int) device.Stats {
	at := r.on[dev].index
	if at < 0 {
		return device.Stats{}
	}
	own, base := r.Residency.Memory(at), r.Residency.BaseMemory(at)
	own.Live, own.Peak = own.Live+base.Live, own.Peak+base.Peak
	for u := range own.LiveBy {
		own.LiveBy[u] += base.LiveBy[u]
		own.PeakBy[u] += base.PeakBy[u]
	}
	return own
}

// BaseBytes is the part of a device's memory that the runtime's base takes, which it may have with others: see
// [residency.TenantOptions].
func (r *Runtime) BaseBytes(dev int) int64 {
	if at := r.on[dev].index; at >= 0 {
		return r.Residency.BaseBytes(at)
	}
	return 0
}

// Busy is the time that each used device's compute stream has worked so far.
func (r *Runtime) Busy() []time.Duration {
	busy := make([]time.Duration, len(r.compute))
	for i, s := range r.compute {
		busy[i] = time.Duration(s.Busy())
	}
	return busy
}

// EndWith ends the runtime's work with ctx: tasks that have not begun by then are skipped,
// and fail with ctx's cause. The runtime is unusable afterwards. It is for work whose results
// nobody wants after that, with nothing to save. Close undoes it, a second call replaces
// it, and Resume leaves it behind: call it again.
func (r *Runtime) EndWith(ctx context.Context) {
	r.stopEnding()
	streams := slices.Clone(r.compute)
	r.ending = context.AfterFunc(ctx, func() {
		for _, s := range streams {
			s.Cancel(context.Cause(ctx))
		}
	})
}

// stopEnding undoes EndWith.
func (r *Runtime) stopEnding() {
	if r.ending != nil {
		r.ending()
		r.ending = nil
	}
}
