package residency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// model has the expected contents of each tensor after the last operation queued:
// one byte, repeated.
type model struct {
	t       *rapid.T
	r       *rig
	compute [][]device.Stream // per device
	ts      []*Tensor
	value   []int // -1: undefined
	next    int
	budgets []int64

	feeds []device.HostBuffer // one per tensor, nil until fed
	mu    sync.Mutex
	wrong []string
}

func (s *model) fresh() int {
	s.next = s.next%100 + 1
	return s.next
}

// check is the work of a task: read and compare, then write.
func (s *model) check(needs []Need) (*fakeExe, []int) {
	read, write := make([]int, len(needs)), make([]int, len(needs))
	after := append([]int(nil), s.value...)
	for i, n := range needs {
		k := s.index(n.Tensor)
		read[i], write[i] = -1, -1
		if n.Mode&Read != 0 {
			read[i] = s.value[k]
		}
		if n.Mode&Write != 0 {
			write[i] = s.fresh()
			after[k] = write[i]
		}
	}
	return &fakeExe{f: func(in, _ [][]byte) error {
		for i := range in {
			if read[i] >= 0 && string(in[i]) != string(pattern(int64(len(in[i])), byte(read[i]))) {
				s.mu.Lock()
				s.wrong = append(s.wrong, fmt.Sprintf("%s on device %d: %v, want %d", needs[i].Tensor.name, needs[i].Device, in[i], read[i]))
				s.mu.Unlock()
			}
		}
		for i := range in {
			if write[i] >= 0 {
				copy(in[i], pattern(int64(len(in[i])), byte(write[i])))
			}
		}
		return nil
	}}, after
}

func (s *model) index(t *Tensor) int {
	for i := range s.ts {
		if s.ts[i] == t {
			return i
		}
	}
	panic("no such tensor")
}

func (s *model) draw() (int, *Tensor) {
	i := rapid.IntRange(0, len(s.ts)-1).Draw(s.t, "tensor")
	return i, s.ts[i]
}

// task acquires random needs, and knows whether that must succeed.
func (s *model) task(t *rapid.T) {
	d := rapid.IntRange(0, len(s.r.devs)-1).Draw(t, "device")
	var needs []Need
	var bytes int64
	seen := map[*Tensor]bool{}
	undefined := false
	for range rapid.IntRange(1, 4).Draw(t, "needs") {
		i, x := s.draw()
		mode := Mode(rapid.IntRange(1, 3).Draw(t, "mode"))
		if seen[x] {
			continue
		}
		seen[x] = true
		bytes += x.bytes
		undefined = undefined || mode&Read != 0 && s.value[i] < 0
		needs = append(needs, Need{x, d, mode})
	}
	stream := rapid.SampledFrom(s.compute[d]).Draw(t, "stream")
	var l Lease
	scratch := int64(rapid.IntRange(0, 6).Draw(t, "scratch"))
	bytes += scratch
	err := s.r.m.Acquire(context.Background(), stream, needs, scratch, &l)
	switch {
	case undefined:
		if !errors.Is(err, ErrUndefined) {
			t.Fatalf("undefined input: %v", err)
		}
		return
	case s.budgets[d] > 0 && bytes > s.budgets[d]:
		if !errors.Is(err, ErrBudget) {
			t.Fatalf("%d bytes in %d: %v", bytes, s.budgets[d], err)
		}
		return
	case err != nil:
		t.Fatalf("acquire: %v", err)
	}
	if rapid.IntRange(0, 9).Draw(t, "abandon") == 0 {
		if err := s.r.m.Abandon(&l); err != nil {
			t.Fatal(err)
		}
		return
	}
	x, after := s.check(needs)
	ev, err := stream.Launch(x, append([]device.Buffer(nil), l.Buffers...), nil, l.Scratch)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.r.m.Release(&l, ev); err != nil {
		t.Fatal(err)
	}
	s.value = after
}

func (s *model) fill(t *rapid.T) {
	i, x := s.draw()
	s.value[i] = s.fresh()
	if err := s.r.m.Fill(x, pattern(x.bytes, byte(s.value[i]))); err != nil {
		t.Fatal(err)
	}
	s.feeds[i] = nil
}

// feed uses a fresh host buffer; takeBack spoils it as soon as that is allowed.
func (s *model) feed(t *rapid.T) {
	i, x := s.draw()
	s.value[i] = s.fresh()
	hb := s.r.hostBuffer(x.bytes, byte(s.value[i]))
	if err := s.r.m.Feed(x, hb); err != nil {
		t.Fatal(err)
	}
	s.feeds[i] = hb
}

func (s *model) takeBack(t *rapid.T) {
	i, x := s.draw()
	ev, ok := s.r.m.FeedDone(x)
	if s.feeds[i] == nil || !ok {
		return
	}
	if err := ev.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	clear(s.feeds[i].Bytes())
	s.feeds[i] = nil
}

func (s *model) prefetch(t *rapid.T) {
	i, x := s.draw()
	if s.value[i] < 0 {
		return
	}
	d := rapid.IntRange(0, len(s.r.devs)-1).Draw(t, "device")
	if err := s.r.m.Prefetch(context.Background(), []Need{{x, d, Read}}); err != nil {
		t.Fatal(err)
	}
}

func (s *model) pull(t *rapid.T) {
	i, x := s.draw()
	if s.value[i] < 0 {
		return
	}
	h, err := s.r.onHost(context.Background(), ledger.Fetch, x)
	if err != nil {
		t.Fatal(err)
	}
	if string(h) != string(pattern(x.bytes, byte(s.value[i]))) {
		t.Fatalf("pulled %s: %v, want %d", x.name, h, s.value[i])
	}
}

func (s *model) host(t *rapid.T) {
	i, x := s.draw()
	h, err := s.r.m.Host(x)
	if errors.Is(err, ErrStale) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if string(h) != string(pattern(x.bytes, byte(s.value[i]))) {
		t.Fatalf("host has %s: %v, want %d", x.name, h, s.value[i])
	}
}

func (s *model) drop(t *rapid.T) {
	i, x := s.draw()
	if err := s.r.m.Drop(x); err != nil {
		t.Fatal(err)
	}
	s.value[i] = -1
}

func (s *model) stream(t *rapid.T) {
	i, x := s.draw()
	s.value[i] = 'A'
	if err := s.r.m.FromStore(x, &shelf{reads: map[string]int{}}, "A"); err != nil {
		t.Fatal(err)
	}
	s.feeds[i] = nil
}

func (s *model) setUses(t *rapid.T) {
	var launches []Launch
	for range rapid.IntRange(0, 8).Draw(t, "launches") {
		_, x := s.draw()
		launches = append(launches, Launch{Needs: []Need{{x, rapid.IntRange(0, len(s.r.devs)-1).Draw(t, "device"), Read}}})
	}
	u := s.r.m.NewUses(launches)
	for d := range u.devs {
		if n := len(u.tensors[d]); n > 0 { // any plan, also a bad one
			some := rapid.SliceOfN(rapid.SliceOf(rapid.IntRange(0, n-1)), len(u.devs[d].trace.Launches), len(u.devs[d].trace.Launches))
			u.devs[d].policy.Plan = paging.Plan{Leaves: some.Draw(t, "leaves"), Loads: some.Draw(t, "loads")}
		}
		u.devs[d].policy.Spare = int64(rapid.IntRange(0, 100).Draw(t, "spare"))
	}
	s.r.m.SetUses(u)
}

// accounts compares the memory of a device with the buffers of tensors there. No
// lease is held, so each is current.
func (s *model) accounts(t *rapid.T, d int) {
	s.r.m.mu.Lock()
	defer s.r.m.mu.Unlock()
	p := &s.r.m.devs[d]
	var bytes int64
	seen := map[device.Buffer]bool{}
	for _, x := range s.ts {
		c := &x.copies[d]
		if c.buf == nil {
			continue
		}
		if !x.current(c) || seen[c.buf] || p.residents[c.slot] != x {
			t.Fatalf("%s has a stale copy of %s, or one that is another's, or none on record", p.id, x.name)
		}
		seen[c.buf] = true
		bytes += x.bytes
	}
	if live := s.r.devs[d].Stats().Live; live != bytes || len(p.residents) != len(seen) {
		t.Fatalf("%s has %d bytes live and %d tensors, expected %d and %d", p.id, live, len(p.residents), bytes, len(seen))
	}
}

// invariants holds after each operation.
func (s *model) invariants(t *rapid.T) {
	for d, dev := range s.r.devs {
		if peak := dev.Stats().Peak; s.budgets[d] > 0 && peak > s.budgets[d] {
			t.Fatalf("%s peaked at %d of %d", dev.id, peak, s.budgets[d])
		}
		s.accounts(t, d)
	}
	for i, x := range s.ts {
		if (x.Location() == "nowhere") != (s.value[i] < 0) {
			t.Fatalf("%s is at %s, and holds %d", x.name, x.Location(), s.value[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) > 0 {
		t.Fatalf("wrong contents: %v", s.wrong)
	}
}

// TestModel runs random histories on random machines: every read sees the latest
// contents in any buffer, no budget is exceeded, all memory is freed, and every
// byte is counted.
func TestModel(t *testing.T) {
	spill := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "devices")
		s := &model{t: rt, r: &rig{T: t}, budgets: make([]int64, n)}
		peers := rapid.Bool().Draw(rt, "peers")
		o := ManagerOptions{StagingBytes: 16}
		if rapid.Bool().Draw(rt, "bound on host memory") {
			o.HostBytes, o.SpillDir = rapid.Int64Range(1, 32).Draw(rt, "host bytes"), spill
		}
		var devs []device.Device
		for i := range n {
			d := newFake(i)
			d.peers = peers
			d.lag = time.Duration(rapid.IntRange(0, 3).Draw(rt, "lag")) * 50 * time.Microsecond
			s.budgets[i] = int64(rapid.IntRange(0, 24).Draw(rt, "budget"))
			d.capacity = s.budgets[i]
			s.r.devs = append(s.r.devs, d)
			devs = append(devs, d)
		}
		m, err := Open(devs, o, TenantOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		s.r.m = m
		s.r.auditChoices(rt.Fatalf)
		s.compute = make([][]device.Stream, n)
		for i := range 2 * n {
			c, err := s.r.devs[i%n].NewStream("compute")
			if err != nil {
				rt.Fatal(err)
			}
			s.r.compute = append(s.r.compute, c)
			s.compute[i%n] = append(s.compute[i%n], c)
		}
		for i := range 8 { // pairs of a size; one pair differs in usage
			x, err := m.Declare(Key{Value: fmt.Sprint("t", i)}, shape.Meta{DType: shape.Uint8, Shape: shape.Of(i/2*2 + 1)}, device.Usage(i/7))
			if err != nil {
				rt.Fatal(err)
			}
			s.ts = append(s.ts, x)
			s.value = append(s.value, -1)
		}
		s.feeds = make([]device.HostBuffer, len(s.ts))
		rt.Repeat(map[string]func(*rapid.T){
			"task": s.task, "task again": s.task, "and again": s.task, "fill": s.fill, "feed": s.feed, "take back": s.takeBack,
			"prefetch": s.prefetch, "pull": s.pull, "host": s.host, "drop": s.drop, "drop again": s.drop, "stream": s.stream, "uses": s.setUses,
			"": s.invariants,
		})
		conserved(rt, s.r)
		s.invariants(rt)
		for _, c := range s.r.compute {
			if err := c.Close(); err != nil {
				rt.Fatal(err)
			}
		}
		if err := m.Close(); err != nil {
			rt.Fatal(err)
		}
		for _, d := range s.r.devs {
			if err := d.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestNetworksAtOnce runs tasks of several networks from as many goroutines on
// devices too small for all, while others pull tensors back.
func TestNetworksAtOnce(t *testing.T) {
	const networks, steps = 4, 60
	r := newRig(t, 2, rigOptions{tenant: TenantOptions{OnTransfer: func(ledger.Row) {}}}, capacity(40, 40))
	shared := r.declare("shared", 8, device.Weight)
	r.fill(shared, 's')
	var wg sync.WaitGroup
	for n := range networks {
		own := r.declare(fmt.Sprint("own", n), 16, device.Weight)
		r.fill(own, 0)
		var streams []device.Stream
		for _, d := range r.devs {
			s, err := d.NewStream("compute")
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
			r.compute = append(r.compute, s)
		}
		wg.Go(func() {
			for i := range steps {
				d := (i + n) % 2
				var l Lease
				needs := []Need{{own, d, ReadWrite}, {shared, d, Read}}
				if err := r.m.Acquire(short(t), streams[d], needs, 0, &l); err != nil {
					t.Errorf("network %d step %d: %v", n, i, err)
					return
				}
				x := &fakeExe{f: func(in, _ [][]byte) error {
					if in[0][3] != byte(i) || in[1][0] != 's' {
						return fmt.Errorf("step %d found %v and %v", i, in[0], in[1])
					}
					in[0][3]++
					return nil
				}}
				ev, err := streams[d].Launch(x, append([]device.Buffer(nil), l.Buffers...), nil, l.Scratch)
				if err = errors.Join(err, r.m.Release(&l, ev)); err != nil {
					t.Errorf("network %d step %d: %v", n, i, err)
					return
				}
			}
			h, err := r.onHost(short(t), ledger.Epoch, own)
			if err != nil {
				t.Errorf("network %d: %v", n, err)
			} else if got := h[3]; got != steps {
				t.Errorf("network %d counted %d steps of %d", n, got, steps)
			}
		})
	}
	wg.Go(func() {
		for range steps {
			if err := r.m.PullBack(short(t), ledger.Debug, shared); err != nil {
				t.Error(err)
			}
			_ = r.m.Ledger().String()
			_ = shared.Location()
		}
	})
	wg.Wait()
	for _, d := range r.devs {
		if p := d.Stats().Peak; p > 40 {
			t.Errorf("%s peaked at %d of 40", d.id, p)
		}
	}
	conserved(t, r)
}
