package mpi

import (
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// thread is the one that calls MPI.
type thread struct {
	world   *World
	library *library
	handles handles
	memory  *memory
	free    []*uint64  // requests that are not used
	open    []*message // not yet ended, in the order in which they were posted
	ended   []*message
	pause   pause
}

// kind says what becomes of a message.
type kind int

const (
	sends kind = iota
	receives
	sums // is no message, but a sum over all ranks
)

// message is what a rank sends or receives, in parts.
type message struct {
	kind  kind
	event device.Event
	peer  int
	tag   ranks.Tag
	b     []byte
	given int       // bytes that MPI has
	begun bool      // MPI has all of it
	parts []*uint64 // the requests that have not ended
}

// mostPart is the most bytes of a part: MPI counts in 32 bits.
const mostPart = 1 << 30

// serve is the thread. met gets an error, or nil once all ranks have met.
func (w *World) serve(files []string, met chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	t := &thread{world: w, pause: pause{bell: w.bell, sleep: leastSleep}}
	w.thread = t
	if err := t.init(files); err != nil {
		met <- err
		return
	}
	met <- nil
	for {
		var closed bool
		var err error
		w.bell.hush() // before the look at what was posted
		t.open, closed, err = w.take(t.open, t.ended)
		t.ended = t.ended[:0]
		if err == nil && len(t.open) == 0 && closed {
			break
		}
		var moved bool
		if err == nil {
			moved, err = t.step()
		}
		if err != nil {
			w.ops.Fail(err)
			return // MPI is not asked again: what an error leaves behind is not known
		}
		switch {
		case moved:
			t.pause.reset()
		case len(t.open) > 0:
			t.pause.wait()
		default:
			w.bell.wait(0)
		}
	}
	t.call(finalize)
}

// init loads MPI and meets the other ranks.
func (t *thread) init(files []string) (err error) {
	if t.library, err = load(files); err != nil {
		return err
	}
	if t.memory, err = mapped[memory](); err != nil {
		return err
	}
	if t.handles, err = t.library.abi(t.memory); err != nil {
		return err
	}
	m, launch := t.memory, &t.world.launch
	if t.call(libraryVersion, address(&m.text[0]), address(&m.ints[0])) == 0 {
		t.world.library = nameOf(m.text[:])
	}
	if rc := t.call(initThread, 0, 0, t.handles.funneled, address(&m.ints[0])); rc != 0 {
		return fmt.Errorf("%w: MPI_Init_thread of %s gives error %d", ranks.ErrLibrary, t.world.library, rc)
	}
	t.call(setErrors, t.handles.world, t.handles.errorsReturn)
	t.call(commRank, t.handles.world, address(&m.ints[0]))
	t.call(commSize, t.handles.world, address(&m.ints[1]))
	if rank, size := int(m.ints[0]), int(m.ints[1]); size != launch.Size || rank != launch.Rank {
		return fmt.Errorf("%w: %s has started %d processes (%s), and MPI in %s knows of %d: load the MPI of that launcher, named in BERTH_MPI",
			ranks.ErrLaunch, launch.By, launch.Size, launch.Variable, t.library.file, size)
	}
	return nil
}

// call calls a function of MPI.
func (t *thread) call(f function, args ...uintptr) int32 {
	return int32(call(t.library.at[f], args...))
}

// abort ends all ranks, from any thread.
func (t *thread) abort(code int) { t.call(abort, t.handles.world, uintptr(code)) }

// step hands messages to MPI, and asks whether some have ended. moved says that one has.
func (t *thread) step() (moved bool, err error) {
	for _, m := range t.open {
		if !m.begun {
			if err := t.begin(m); err != nil {
				return false, err
			}
			m.begun, moved = true, true
		}
	}
	t.open = slices.DeleteFunc(t.open, func(m *message) bool {
		if err == nil {
			err = t.ask(m)
		}
		if err != nil || len(m.parts) > 0 {
			return false
		}
		t.world.ops.End(m.event, nil)
		m.b, m.event = nil, device.Event{}
		t.ended, moved = append(t.ended, m), true
		return true
	})
	return moved, err
}

// begin hands the parts of a message to MPI.
func (t *thread) begin(m *message) error {
	if m.kind == sums {
		buf := uintptr(unsafe.Pointer(unsafe.SliceData(m.b)))
		rc := t.call(allreduce, t.handles.inPlace, buf, uintptr(len(m.b)/4), t.handles.float, t.handles.sum, t.handles.world)
		if rc != 0 {
			return fmt.Errorf("%s gives error %d", names[allreduce], rc)
		}
		return nil
	}
	f := isend
	if m.kind == receives {
		f = irecv
	}
	for {
		r, err := t.request()
		if err != nil {
			return err
		}
		part := m.b[m.given:min(len(m.b), m.given+mostPart)]
		buf := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
		rc := t.call(f, buf, uintptr(len(part)), t.handles.byte, uintptr(m.peer), uintptr(m.tag), t.handles.world, address(r))
		if rc != 0 {
			return fmt.Errorf("%s of rank %d gives error %d", names[f], m.peer, rc)
		}
		m.parts, m.given = append(m.parts, r), m.given+len(part)
		if m.given == len(m.b) {
			return nil
		}
	}
}

// request is one that is not used.
func (t *thread) request() (*uint64, error) {
	if len(t.free) == 0 {
		more, err := mapped[requests]()
		if err != nil {
			return nil, err
		}
		for i := range more {
			t.free = append(t.free, &more[i])
		}
	}
	r := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	return r, nil
}

// ask asks which parts of a message have ended.
func (t *thread) ask(m *message) error {
	for j := 0; j < len(m.parts); {
		flag := &t.memory.ints[0]
		rc := t.call(test, address(m.parts[j]), address(flag), address(&t.memory.status[0]))
		if rc != 0 {
			return fmt.Errorf("%s of a message with rank %d gives error %d", names[test], m.peer, rc)
		}
		if *flag == 0 {
			j++
			continue
		}
		t.free = append(t.free, m.parts[j])
		m.parts = slices.Delete(m.parts, j, j+1)
	}
	return nil
}

// pause is the time between two questions whether something has ended. First there is none, so that short messages
// are fast; then other threads may run; then the thread sleeps, longer and longer, and leaves its core to those that
// compute.
type pause struct {
	bell  *bell
	count int
	sleep time.Duration
}

const (
	spins      = 200
	yields     = 2000
	leastSleep = 50 * time.Microsecond
	mostSleep  = 2 * time.Millisecond
)

// reset begins anew, as something has ended.
func (p *pause) reset() { p.count, p.sleep = 0, leastSleep }

// wait pauses. The bell ends a sleep.
func (p *pause) wait() {
	p.count++
	switch {
	case p.count <= spins:
	case p.count <= yields:
		yield()
	default:
		p.bell.wait(p.sleep)
		p.sleep = min(p.sleep*5/4, mostSleep)
	}
}
