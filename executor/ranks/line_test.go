package ranks

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/testall"
)

// shared is a buffer that counts its uses.
type shared struct {
	device.Buffer
	mu    sync.Mutex
	b     []byte
	kept  int
	wrote int
}

func (s *shared) Bytes() []byte { return s.b }

func (s *shared) Keep(device.Event) error { return s.count(&s.kept, 1) }

func (s *shared) Wrote() { _ = s.count(&s.wrote, 1) }

func (s *shared) Leave() { _ = s.count(&s.kept, -1) }

func (s *shared) count(n *int, by int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
	return nil
}

// pair is a line from rank 0 to rank 1, at both ends.
func pair() (world []Transport, send, recv *Line) {
	world = NewLoop(2, func(int) {})
	return world, NewLine(world[0], 1, true), NewLine(world[1], 0, false)
}

// TestLine: buffers arrive in the order in which they were added, whenever the events before them end, and each
// event tells of its own buffer and those before it.
func TestLine(t *testing.T) {
	_, send, recv := pair()
	const n = 5 * ahead
	var writers Operations
	var sent, got []*shared
	var after, events []device.Event
	add := func(l *Line, b *shared, e device.Event) {
		done, err := l.Add(b, e, Label{})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, done)
	}
	for i := range n {
		sent, got = append(sent, &shared{b: make([]byte, i%7)}), append(got, &shared{b: make([]byte, i%7)})
		after = append(after, writers.Begin(), writers.Begin())
		add(send, sent[i], after[2*i])
		add(recv, got[i], after[2*i+1])
	}
	go func() {
		for _, i := range rand.Perm(len(after)) {
			if i%2 == 0 {
				for j := range sent[i/2].b {
					sent[i/2].b[j] = byte(i + j)
				}
			}
			writers.End(after[i], nil)
		}
	}()
	for _, i := range rand.Perm(n) {
		short, cancel := context.WithTimeout(context.Background(), time.Microsecond)
		_ = events[2*i+1].Wait(short)
		cancel()
		if err := events[2*i+1].Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		for k := range i + 1 {
			if !events[2*k+1].Done() {
				t.Fatalf("buffer %d has come before buffer %d", i, k)
			}
		}
		for j, b := range got[i].b {
			if b != byte(2*i+j) {
				t.Fatalf("buffer %d has %d at %d", i, b, j)
			}
		}
	}
	if err := errors.Join(send.Close(), recv.Close()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if sent[i].kept != 0 || got[i].kept != 0 || sent[i].wrote != 0 || got[i].wrote != 1 {
			t.Fatalf("buffer %d: %+v sent, %+v received", i, sent[i], got[i])
		}
	}
	if !send.Closed() || !recv.Closed() {
		t.Error("a line that was closed is open")
	}
}

// TestLineFails: after a failure of what comes before a buffer, neither that nor later ones are sent. The others' end
// hears of it by Fail, and nothing is written afterwards.
func TestLineFails(t *testing.T) {
	world, send, recv := pair()
	var writers Operations
	cause, fine := errors.New("the launch failed"), &shared{b: []byte{1}}
	failing := writers.Begin()
	var events []device.Event
	got := []*shared{{b: make([]byte, 1)}, {b: make([]byte, 1)}, {b: make([]byte, 1)}}
	for i, e := range []device.Event{{}, failing, {}} {
		done, err := send.Add(fine, e, Label{1, "a"})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, done)
		if _, err := recv.Add(got[i], device.Event{}, Label{uint64(i), "b"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := events[0].Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if events[1].Done() {
		t.Error("a buffer was sent before it was written")
	}
	if _, _, ok := send.Open(); ok {
		t.Error("a buffer that is not written waits for the other rank")
	}
	for recv.Record().Seq > 0 {
		if label, since, ok := recv.Open(); ok && label.Step == 1 && label.What == "b" && time.Since(since) < time.Minute {
			break
		}
		time.Sleep(time.Millisecond) // until it is posted
	}
	writers.End(failing, cause)
	for _, e := range events[1:] {
		if err := e.Wait(t.Context()); !errors.Is(err, cause) {
			t.Errorf("%v, want %v", err, cause)
		}
	}
	if err := events[0].Err(); err != nil {
		t.Errorf("the buffer before: %v", err)
	}
	end := recv.Record()
	if end.Done() {
		t.Error("what was never sent has come")
	}
	ended := errors.New("rank 0 has failed")
	world[1].Fail(ended)
	if err := end.Wait(t.Context()); !errors.Is(err, ended) {
		t.Errorf("%v, want %v", err, ended)
	}
	world[0].Send(1, TagTensor, []byte{9})
	if !errors.Is(send.Close(), cause) || !errors.Is(recv.Close(), ended) {
		t.Error("a line that failed closes without its error")
	}
	if values := []byte{got[0].b[0], got[1].b[0], got[2].b[0]}; !slices.Equal(values, []byte{1, 0, 0}) {
		t.Errorf("%v came", values)
	}
}

// TestLoopFails: a rank that has failed reads and writes no memory any more, whichever side of a message was first.
func TestLoopFails(t *testing.T) {
	world := NewLoop(2, func(int) {})
	cause := errors.New("it failed")
	early, late := []byte{0}, []byte{0}
	want := world[1].Recv(0, TagBench, early)
	sent := world[1].Send(0, TagBench, []byte{7})
	world[1].Fail(cause)
	world[0].Send(1, TagBench, []byte{1})
	world[1].Recv(0, TagBench, late)
	got := []byte{0}
	if e := world[0].Recv(1, TagBench, got); e.Done() {
		t.Error("a message of a rank that has failed came")
	}
	if !errors.Is(want.Err(), cause) || !errors.Is(sent.Err(), cause) {
		t.Errorf("the operations of the rank end with %v and %v", want.Err(), sent.Err())
	}
	if early[0]+late[0]+got[0] != 0 {
		t.Errorf("memory was written: %d, %d, %d", early, late, got)
	}
}

// TestLoopFailsAtOnce: once the event of a receive has failed, nothing is written any more, also where the message
// comes at the same time, or does not fit.
func TestLoopFailsAtOnce(t *testing.T) {
	cause := errors.New("it failed")
	sent := make([]byte, 4<<20)
	for i := range sent {
		sent[i] = 1
	}
	for range testall.Most(400, 50) {
		world := NewLoop(3, func(int) {})
		b := make([]byte, len(sent))
		want := world[1].Recv(0, TagBench, b)
		var both sync.WaitGroup
		both.Go(func() { world[0].Send(1, TagBench, sent) })
		both.Go(func() { world[1].Fail(cause) })
		err, before := want.Wait(t.Context()), b[len(b)-1]
		both.Wait()
		if err != nil && b[len(b)-1] != before {
			t.Fatal("memory was written after the failure")
		}
	}
	world := NewLoop(3, func(int) {})
	b := []byte{0}
	world[1].Recv(2, TagBench, b)
	unfit := world[1].Recv(0, TagBench, make([]byte, 2))
	world[0].Send(1, TagBench, sent[:3])
	world[2].Send(1, TagBench, sent[:1])
	if !unfit.Done() || unfit.Err() == nil || b[0] != 0 {
		t.Errorf("a message that does not fit ends with %v, and %d is written afterwards", unfit.Err(), b[0])
	}
}

// TestLineAsksNothingOfBuffers: a device asks for events while it holds the lock that Keep and Leave take.
func TestLineAsksNothingOfBuffers(t *testing.T) {
	world := NewLoop(1, func(int) {})
	quick := instantly{world[0], new(Operations)}
	l := NewLine(quick, 0, true)
	b, asked := &shared{b: []byte{1}}, make(chan struct{})
	go func() {
		defer close(asked)
		for n := uint64(1); n <= 1000; n++ {
			for ended := false; !ended; time.Sleep(time.Microsecond) {
				b.mu.Lock()
				ended = device.Event{Queue: l, Seq: n}.Done()
				b.mu.Unlock()
			}
		}
	}()
	go func() {
		for range 1000 {
			if _, err := l.Add(b, device.Event{}, Label{}); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Fatal("whoever asks for an event with the buffers' lock waits for itself")
	}
	if err := l.Close(); err != nil || b.kept != 0 {
		t.Errorf("%v, and %d uses are left", err, b.kept)
	}
}

// TestLineAllocates: a line that was as long before allocates nothing.
func TestLineAllocates(t *testing.T) {
	if testall.Race {
		t.Skip("the race detector allocates")
	}
	world := NewLoop(1, func(int) {})
	quick := instantly{world[0], new(Operations)}
	l := NewLine(quick, 0, true)
	b := &shared{b: []byte{1}}
	if n := testing.AllocsPerRun(200, func() {
		for range 4 {
			if _, err := l.Add(b, device.Event{}, Label{}); err != nil {
				t.Fatal(err)
			}
		}
		_ = l.Record().Wait(context.Background())
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// instantly is a transport whose messages end at once.
type instantly struct {
	Transport
	ops *Operations
}

func (i instantly) Send(int, Tag, []byte) device.Event {
	e := i.ops.Begin()
	i.ops.End(e, nil)
	return e
}
