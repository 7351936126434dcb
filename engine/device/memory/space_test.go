package memory

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// queue is a queue that must not be asked anything.
type queue struct{ name string }

func (q *queue) Finished(uint64) bool { panic("the allocator asks what has ended") }

func (q *queue) Err(uint64) error { panic("the allocator asks what has failed") }

func (q *queue) Await(context.Context, uint64) error { panic("the allocator waits") }

// unit is a byte of the model: who has it, and its uses since it was taken last.
type unit struct {
	owner *Block
	uses  map[device.Queue]uint64
}

// model is a space, and what it must be byte by byte.
type model struct {
	s      *Space
	align  int64
	queues []device.Queue
	bytes  []unit
	passed map[device.Queue]uint64
	live   []*Block
	seq    uint64
	log    []string // of all answers
}

func newModel(t *rapid.T) *model {
	align := rapid.SampledFrom([]int64{1, 4}).Draw(t, "align")
	size := rapid.Int64Range(0, 64).Draw(t, "size")
	m := &model{s: New(size, align), align: align, passed: map[device.Queue]uint64{}}
	m.bytes = make([]unit, roundUp(size, align))
	for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
		m.queues = append(m.queues, &queue{fmt.Sprint("q", i)})
	}
	return m
}

func (m *model) queue(t *rapid.T) device.Queue { return rapid.SampledFrom(m.queues).Draw(t, "queue") }

// waits is the events that q must wait for before it writes bytes.
func (m *model) waits(q device.Queue, off, size int64) map[device.Queue]uint64 {
	w := map[device.Queue]uint64{}
	for _, u := range m.bytes[off : off+size] {
		for p, seq := range u.uses {
			if p != q && seq > m.passed[p] {
				w[p] = max(w[p], seq)
			}
		}
	}
	return w
}

// largest is the size of the largest free range, and, with a queue, of the
// largest that it can write without waiting.
func (m *model) largest(q device.Queue) (size int64) {
	for off := range m.bytes {
		n := int64(0)
		for i := off; i < len(m.bytes) && m.bytes[i].owner == nil && (q == nil || len(m.waits(q, int64(i), 1)) == 0); i++ {
			n++
		}
		size = max(size, n)
	}
	return size
}

func (m *model) take(t *rapid.T) {
	q, n := m.queue(t), rapid.Int64Range(0, 16).Draw(t, "bytes")
	size := roundUp(n, m.align)
	fits, free := m.largest(nil) >= size, m.largest(q) >= size
	b, after, ok := m.s.Take(n, q)
	if m.log = append(m.log, fmt.Sprint("no room for ", n)); ok != fits {
		t.Fatalf("%d bytes: found %v, expected %v", n, ok, fits)
	} else if !ok {
		return
	}
	m.log[len(m.log)-1] = fmt.Sprint(b.Off, b.Size, len(after))
	if b.Size != size || b.Off%m.align != 0 || b.Off < 0 || b.end() > int64(len(m.bytes)) {
		t.Fatalf("%d bytes: got %d at %d of %d", n, b.Size, b.Off, len(m.bytes))
	}
	want := m.waits(q, b.Off, b.Size)
	if free && size > 0 && len(want) > 0 && !m.s.tight {
		t.Fatalf("%d bytes that need no waiting were passed over", n)
	}
	for _, e := range after {
		if want[e.Queue] != e.Seq {
			t.Fatalf("waits for %d of %v, expected %d", e.Seq, e.Queue, want[e.Queue])
		}
		delete(want, e.Queue)
	}
	if len(want) > 0 {
		t.Fatalf("not waited for: %v", want)
	}
	for i := b.Off; i < b.end(); i++ {
		if m.bytes[i].owner != nil {
			t.Fatalf("byte %d is taken twice", i)
		}
		m.bytes[i] = unit{owner: b}
	}
	m.live = append(m.live, b)
}

func (m *model) give(t *rapid.T) {
	if len(m.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.live)-1).Draw(t, "block")
	b := m.live[i]
	m.live = slices.Delete(m.live, i, i+1)
	uses := map[device.Queue]uint64{}
	var after []device.Event
	for range rapid.IntRange(0, 3).Draw(t, "uses") {
		m.seq++
		e := device.Event{Queue: m.queue(t), Seq: m.seq}
		uses[e.Queue] = e.Seq
		after = append(after, e)
	}
	for i := b.Off; i < b.end(); i++ {
		m.bytes[i] = unit{uses: uses}
	}
	m.s.Give(b, after...)
}

func (m *model) pass(t *rapid.T) {
	q := m.queue(t)
	m.passed[q] = max(m.passed[q], rapid.Uint64Range(0, m.seq).Draw(t, "seq"))
	m.s.Passed(device.Event{Queue: q, Seq: m.passed[q]})
}

// check compares the sums, and walks all blocks.
func (m *model) check(t *rapid.T) {
	var used, end int64
	for _, b := range m.live {
		used += b.Size
	}
	if m.s.Used() != used || m.s.Largest() != m.largest(nil) {
		t.Fatalf("%d used and %d the largest, expected %d and %d", m.s.Used(), m.s.Largest(), used, m.largest(nil))
	}
	runs := 0
	for b := m.s.edge.next; b != &m.s.edge; b = b.next {
		if b.Off != end || b.Size <= 0 || b.next.prev != b || b.free != (m.bytes[b.Off].owner == nil) {
			t.Fatalf("block of %d bytes at %d, expected at %d", b.Size, b.Off, end)
		}
		if end = b.end(); b.free && !b.next.free {
			runs++
			if b.run == nil || b.run.last != b {
				t.Fatalf("the block at %d ends no run", b.Off)
			}
		}
	}
	if end != int64(len(m.bytes)) || runs != len(m.s.runs.runs) {
		t.Fatalf("blocks end at %d of %d, in %d runs of %d", end, len(m.bytes), runs, len(m.s.runs.runs))
	}
}

// TestSpace takes and gives at random: blocks never overlap, a taker is told all
// that it must wait for and nothing else, waits only where it must, and is refused
// only if no free range is large enough. In the end all is one free range.
func TestSpace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){"take": m.take, "take again": m.take, "give": m.give, "passed": m.pass, "": m.check})
		for _, b := range m.live {
			m.s.Give(b)
		}
		if m.s.Used() != 0 || m.s.Largest() != m.s.size {
			rt.Fatalf("at the end %d bytes are used, and the largest range is %d of %d", m.s.Used(), m.s.Largest(), m.s.size)
		}
		for _, q := range m.queues {
			m.s.Passed(device.Event{Queue: q, Seq: m.seq})
		}
		if b, after, ok := m.s.Take(m.s.size, nil); !ok || b.Off != 0 || len(after) > 0 {
			rt.Fatalf("the whole space: %v, waits for %v", ok, after)
		}
	})
}

// TestTight: what fits in a space together is found in it, one block after the
// other, once a Take has failed and all was given back.
func TestTight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){"take": m.take, "take again": m.take, "give": m.give, "passed": m.pass})
		m.s.Take(m.s.size+1, nil)
		for len(m.live) > 0 {
			m.give(rt)
		}
		for left := m.s.size; left > 0; {
			n := rapid.Int64Range(1, left).Draw(rt, "bytes")
			b, _, ok := m.s.Take(n, m.queue(rt))
			if !ok {
				rt.Fatalf("no room for %d of %d bytes", n, left)
			}
			left -= b.Size
		}
	})
}

// Equal calls give equal answers, in spaces that know nothing of each other.
func TestSpaceRepeats(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.Int64Range(64, 1024).Draw(rt, "size")
		a, b := New(size, 8), New(size, 8)
		queues := []device.Queue{&queue{"a"}, &queue{"b"}}
		var as, bs []*Block
		for seq := range rapid.Uint64Range(1, 200).Draw(rt, "calls") {
			q := rapid.SampledFrom(queues).Draw(rt, "queue")
			if n := len(as); n > 0 && rapid.Bool().Draw(rt, "give") {
				i := rapid.IntRange(0, n-1).Draw(rt, "block")
				a.Give(as[i], device.Event{Queue: q, Seq: seq})
				b.Give(bs[i], device.Event{Queue: q, Seq: seq})
				as, bs = slices.Delete(as, i, i+1), slices.Delete(bs, i, i+1)
				continue
			}
			n := rapid.Int64Range(1, 100).Draw(rt, "bytes")
			x, xw, okx := a.Take(n, q)
			y, yw, oky := b.Take(n, q)
			if okx != oky || okx && (x.Off != y.Off || !slices.Equal(xw, yw)) {
				rt.Fatalf("%d bytes: %v %v, then %v %v", n, x, xw, y, yw)
			}
			if okx {
				as, bs = append(as, x), append(bs, y)
			}
		}
	})
}

// A guest may use a range that is free, while its last uses have ended.
func TestIdle(t *testing.T) {
	s := New(100, 1)
	a, _, _ := s.Take(10, nil)
	b, _, _ := s.Take(10, nil)
	g := &ending{}
	s.Give(b, device.Event{Queue: g, Seq: 1})
	for _, c := range []struct {
		off, size int64
		idle      bool
	}{{0, 1, false}, {9, 2, false}, {10, 1, false}, {19, 2, false}, {20, 80, true}, {99, 2, false}} {
		if got := s.Idle(c.off, c.size); got != c.idle {
			t.Errorf("%d bytes at %d: idle is %v", c.size, c.off, got)
		}
	}
	if g.ended = true; !s.Idle(10, 90) || s.Idle(9, 2) {
		t.Error("the range is not idle though its use has ended")
	}
	s.Give(a)
}

// ending is a queue whose operations all end at once.
type ending struct {
	queue
	ended bool
}

func (e *ending) Finished(uint64) bool { return e.ended }

// Blocks of a step are taken and given back without allocating.
func TestSpaceAllocatesNothing(t *testing.T) {
	s := New(1<<20, 64)
	compute, copies := &queue{"compute"}, &queue{"copies"}
	blocks := make([]*Block, 100)
	uses := make([]device.Event, 2)
	var seq uint64
	step := func() {
		for i := range blocks {
			q := compute
			if i%3 == 0 {
				q = copies
			}
			blocks[i], _, _ = s.Take(int64(100*(i%7+1)), q)
		}
		for i := range blocks {
			seq++
			uses[0], uses[1] = device.Event{Queue: compute, Seq: seq}, device.Event{Queue: copies, Seq: seq}
			s.Give(blocks[len(blocks)-1-i], uses[:1+i%2]...)
		}
		s.Passed(device.Event{Queue: compute, Seq: seq - 100})
	}
	for range 100 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

// With thousands of blocks taken, and as many ranges free, a call looks at few.
func TestSpaceStaysFast(t *testing.T) {
	const live, calls = 10_000, 10_000
	compute, copies := &queue{"compute"}, &queue{"copies"}
	s := New(1<<30, 64)
	var blocks []*Block
	for i := range 2 * live {
		b, _, _ := s.Take(int64(64*(i%97+1)), compute)
		blocks = append(blocks, b)
	}
	kept := blocks[:0]
	for i, b := range blocks {
		if i%2 == 0 {
			kept = append(kept, b)
			continue
		}
		s.Give(b, device.Event{Queue: compute, Seq: uint64(i)}) // the copy queue would have to wait
	}
	for _, q := range []*queue{compute, copies} {
		s.looks = 0
		for i := range calls {
			at := i * 7919 % live
			s.Give(kept[at], device.Event{Queue: q, Seq: uint64(2*live + i)})
			kept[at], _, _ = s.Take(int64(64*(i%97+1)), q)
		}
		if most := 2*mostLooks + 8; s.looks > most*calls {
			t.Errorf("%s: %d looks in a call, expected at most %d", q.name, s.looks/calls, most)
		}
		t.Logf("%s: %d looks in a call", q.name, s.looks/calls)
	}
}

// Queues that the host never waits for take the same bytes again and again.
func TestTakesOldBytes(t *testing.T) {
	const batch = 1 << 20
	in, compute := &queue{"in"}, &queue{"compute"}
	s := New(1<<30, 64)
	weights, _, _ := s.Take(4*batch, in)
	reach := weights.end()
	for seq := range uint64(1000) {
		b, _, ok := s.Take(batch, in)
		if !ok {
			t.Fatal("no room")
		}
		reach = max(reach, b.end())
		s.Give(b, device.Event{Queue: compute, Seq: seq + 1})
	}
	if most := int64(2*5*batch + spareBytes); reach > most {
		t.Errorf("%d bytes were taken with %d in use at most, expected at most %d", reach, s.peak, most)
	}
}
