package mpi

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/internal/prompt"
)

// thread is the one that calls MPI.
type thread struct {
	world   *World
	library *library
	handles handles
	memory  *memory
	free    []*uint64 // requests that are not used
	queues  []*queue
	open    int // messages in them
	posted  []*message
	ended   []*message
	works   []*message // what is to run next
	failed  bool
	pause   pause
	args    [mostArgs]uintptr // of a call
}

// mostArgs are those of MPI_Isend.
const mostArgs = 7

// queue has the messages of one direction, peer and tag that MPI has, in their order, which is about that in which
// they end. So MPI is asked for the first alone: there may be a hundred others, and each question takes time from
// those that compute.
type queue struct {
	kind     kind
	peer     int
	tag      ranks.Tag
	messages []*message
}

// kind says what becomes of a message.
type kind int

const (
	sends kind = iota
	receives
	sums  // is no message, but a sum over all ranks
	works // nor is this: the thread is to run a function
)

// message is what a rank sends or receives, in parts.
type message struct {
	kind  kind
	event device.Event
	peer  int
	tag   ranks.Tag
	b     []byte
	work  func(ranks.Transport)
	given int       // bytes that MPI has
	parts []*uint64 // the requests that have not ended
}

// mostPart is the most bytes of a part. UCX, which some builds of MPICH use, copies that much between processes in one
// call of MPI. So a part ends with each, and the thread does not sleep in the middle of a long message.
const mostPart = 512 << 10

// serve is the thread. met gets an error, or nil once all ranks have met.
func (w *World) serve(files []string, met chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	prompt.Wake()
	t := &thread{world: w, pause: pause{bell: w.bell, sleep: leastSleep}}
	w.thread = t
	if err := t.init(files); err != nil {
		met <- err
		return
	}
	// The Go runtime takes this thread's turn from it while it is in MPI if there is none for other threads, and then
	// looks for turns to take every 20 µs.
	defer prompt.Beside()()
	met <- nil
	for t.turn() {
		for len(t.works) > 0 {
			m := t.works[0]
			t.works = slices.Delete(t.works, 0, 1)
			m.work(within{w})
			t.end(m)
		}
	}
	if t.failed {
		return // MPI is not asked again: what an error leaves behind is not known
	}
	if strings.HasPrefix(w.library, "MPICH") {
		time.Sleep(quietBefore)
	}
	t.call(finalize)
}

// turn takes what was posted, asks MPI once, and pauses if nothing has moved. It is false once the thread has to end.
func (t *thread) turn() bool {
	if t.failed {
		return false
	}
	w := t.world
	var closed bool
	var err error
	w.bell.hush() // before the look at what was posted
	t.posted, closed, err = w.take(t.posted[:0], t.ended)
	t.ended = t.ended[:0]
	if err == nil && len(t.posted) == 0 && t.open == 0 && closed {
		return false
	}
	var moved bool
	if err == nil {
		moved, err = t.step()
	}
	if err != nil {
		t.failed = true
		w.ops.Fail(fmt.Errorf("%w: %w", ranks.ErrCarrier, err))
		return false
	}
	if moved {
		t.pause.reset()
	} else {
		t.pause.wait(t.open > 0)
	}
	return true
}

// end ends a message.
func (t *thread) end(m *message) {
	t.world.ops.End(m.event, nil)
	m.b, m.work, m.event = nil, nil, device.Event{}
	t.ended = append(t.ended, m)
}

// quietBefore is how long no rank of MPICH calls MPI before MPI_Finalize. Over UCX, MPICH 4.0 there asks each peer whether
// all has arrived, answers the peers until it has their answers, and then answers no more. A rank that still waits for
// a message would answer early, begin later, and never get an answer itself.
const quietBefore = 100 * time.Millisecond

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

// call calls a function of MPI. The arguments of a call through purego escape, and each question whether a message has
// ended would allocate them.
func (t *thread) call(f function, args ...uintptr) int32 {
	n := copy(t.args[:], args)
	return int32(call(t.library.at[f], t.args[:n]...))
}

// abort ends all ranks, from any thread.
func (t *thread) abort(code int) { call(t.library.at[abort], t.handles.world, uintptr(code)) }

// step hands messages to MPI, and asks whether some have ended. moved says that one was, or has.
func (t *thread) step() (moved bool, err error) {
	for _, m := range t.posted {
		moved = true
		if m.kind == works {
			t.works = append(t.works, m)
			continue
		}
		if err := t.begin(m); err != nil {
			return false, err
		}
		q := t.queue(m)
		q.messages = append(q.messages, m)
		t.open++
	}
	for _, q := range t.queues {
		n := 0
		for ; n < len(q.messages); n++ {
			m := q.messages[n]
			part, err := t.ask(m)
			if err != nil {
				return false, err
			}
			moved = moved || part
			if len(m.parts) > 0 {
				break
			}
			t.end(m)
		}
		if n > 0 {
			q.messages, t.open, moved = slices.Delete(q.messages, 0, n), t.open-n, true
		}
	}
	return moved, nil
}

// queue is that of a message.
func (t *thread) queue(m *message) *queue {
	for _, q := range t.queues {
		if q.kind == m.kind && q.peer == m.peer && q.tag == m.tag {
			return q
		}
	}
	q := &queue{kind: m.kind, peer: m.peer, tag: m.tag}
	t.queues = append(t.queues, q)
	return q
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

// ask asks which parts of a message have ended. moved says that one has.
func (t *thread) ask(m *message) (moved bool, err error) {
	n := 0
	for ; n < len(m.parts); n++ {
		flag := &t.memory.ints[0]
		rc := t.call(test, address(m.parts[n]), address(flag), address(&t.memory.status[0]))
		if rc != 0 {
			return false, fmt.Errorf("%s of a message with rank %d gives error %d", names[test], m.peer, rc)
		}
		if *flag == 0 {
			break
		}
		t.free = append(t.free, m.parts[n])
	}
	m.parts = slices.Delete(m.parts, 0, n)
	return n > 0, nil
}

// pause is the time between two questions whether something has ended. First there is none, so that short messages
// are fast; then other threads may run; then the thread sleeps, longer and longer, and leaves its core to those that
// compute.
type pause struct {
	bell  *bell
	since time.Time // when something has ended, or was posted
	turn  time.Time // when the Go runtime gave this goroutine its turn, about
	sleep time.Duration
}

// How long after that the thread does what. Something ends or is posted a hundred times in a step, while each core has
// a thread that computes: 2,000 questions each time took a tenth of all time.
const (
	spin       = 20 * time.Microsecond
	yields     = 100 * time.Microsecond
	leastSleep = 50 * time.Microsecond
	mostSleep  = 2 * time.Millisecond
)

// longestTurn is below the 10 ms after which the Go runtime ends a goroutine's turn. One that is in a system call does
// not hear of that: the runtime tried it again every 20 µs, which took 3% of a core.
const longestTurn = 5 * time.Millisecond

// reset begins anew.
func (p *pause) reset() { p.since, p.sleep = time.Now(), leastSleep }

// wait pauses. The bell ends a sleep, and it alone where nothing is open.
func (p *pause) wait(open bool) {
	now := time.Now()
	switch quiet := now.Sub(p.since); {
	case quiet < spin:
	case quiet < yields:
		yield()
	case !open:
		p.bell.wait(0)
	default:
		if now.Sub(p.turn) > longestTurn {
			runtime.Gosched()
			p.turn = now
		}
		p.bell.wait(p.sleep)
		p.sleep = min(p.sleep*5/4, mostSleep)
	}
}
