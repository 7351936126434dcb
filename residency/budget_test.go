package residency

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// TestEviction compares what is given up for a fourth tensor when three fit.
func TestEviction(t *testing.T) {
	cases := []struct {
		name string
		do   func(r *rig, ts []*Tensor)
		want string // evicted
	}{
		{"least recently used", func(r *rig, ts []*Tensor) {
			for _, i := range []int{1, 0, 2} {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t1 fake:0>"},
		{"clean before dirty", func(r *rig, ts []*Tensor) {
			r.write(ts[0], 0, 'a')
			r.mustRead(ts[1], 0, 'a')
			r.mustRead(ts[2], 0, 'a')
		}, "drop t1 fake:0>"},
		{"dirty ones spill", func(r *rig, ts []*Tensor) {
			for _, i := range []int{2, 0, 1} {
				r.write(ts[i], 0, 'a')
			}
		}, "spill t2 fake:0>host; drop t2 fake:0>"},
		{"dirty ones with a clean host copy do not", func(r *rig, ts []*Tensor) {
			for _, i := range []int{2, 0, 1} {
				r.write(ts[i], 0, 'a')
			}
			if err := r.m.PullBack(context.Background(), Epoch, ts[0]); err != nil {
				r.Fatal(err)
			}
		}, "drop t0 fake:0>"},
		{"dirty ones with a peer do not", func(r *rig, ts []*Tensor) {
			for _, i := range []int{2, 0, 1} {
				r.write(ts[i], 0, 'a')
			}
			r.mustRead(ts[1], 1, 'a')
		}, "drop t1 fake:0>"},
		{"furthest next use", func(r *rig, ts []*Tensor) {
			r.m.SetUses([]Use{{ts[0], 0}, {ts[1], 0}, {ts[2], 0}, {ts[3], 0}, {ts[0], 0}, {ts[2], 0}, {ts[1], 0}})
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t1 fake:0>"},
		{"the order repeats", func(r *rig, ts []*Tensor) {
			r.m.SetUses([]Use{{ts[0], 0}, {ts[1], 0}, {ts[2], 0}, {ts[3], 0}})
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t2 fake:0>"},
		{"never used again goes first", func(r *rig, ts []*Tensor) {
			r.m.SetUses([]Use{{ts[1], 0}, {ts[2], 0}, {ts[3], 0}})
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t0 fake:0>"},
		{"a forgotten order is least recently used", func(r *rig, ts []*Tensor) {
			r.m.SetUses([]Use{{ts[1], 0}, {ts[2], 0}, {ts[3], 0}})
			r.m.SetUses(nil)
			for _, i := range []int{1, 0, 2} {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t1 fake:0>"},
	}
	limits := []struct {
		name   string
		o      ManagerOptions
		change func(int, *fakeDev)
	}{
		{"budget", ManagerOptions{Budgets: []int64{24}}, func(int, *fakeDev) {}},
		{"device", ManagerOptions{}, func(i int, d *fakeDev) { d.capacity = 24 }},
	}
	for _, limit := range limits {
		for _, c := range cases {
			t.Run(limit.name+"/"+c.name, func(t *testing.T) {
				r := newRig(t, 2, limit.o, limit.change)
				var ts []*Tensor
				for i := range 4 {
					x := r.declare(fmt.Sprint("t", i), 8, device.Weight)
					r.fill(x, 'a')
					ts = append(ts, x)
				}
				c.do(r, ts)
				r.kinds()
				r.mustRead(ts[3], 0, 'a')
				if got, want := r.kinds(), c.want+"; copy-in t3 host>fake:0"; got != want {
					t.Errorf("moved %q, want %q", got, want)
				}
				for _, x := range ts {
					r.mustRead(x, 0, 'a')
				}
				if peak := r.devs[0].Stats().Peak; peak > 24 {
					t.Errorf("peak is %d of 24", peak)
				}
				conserved(t, r)
			})
		}
	}
}

// choosy is a device with its own eviction policy: the biggest.
type choosy struct{ *fakeDev }

func (c choosy) Victim(cs []Candidate) int {
	best := 0
	for i := range cs {
		if cs[i].Bytes > cs[best].Bytes {
			best = i
		}
	}
	return best
}

func TestDevicePolicy(t *testing.T) {
	d := newFake(0)
	r := &rig{T: t, devs: []*fakeDev{d}}
	m, err := New([]device.Device{choosy{d}}, ManagerOptions{Budgets: []int64{32}, OnTransfer: func(x Row) { r.rows = append(r.rows, x) }})
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	s, err := d.NewStream("compute")
	if err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, s)
	defer r.close()
	for i, n := range []int{8, 16, 4, 8} {
		x := r.declare(fmt.Sprint("t", i), n, device.Weight)
		r.fill(x, 'a')
		r.mustRead(x, 0, 'a')
	}
	if got := r.kinds(); !strings.HasSuffix(got, "drop t1 fake:0>; copy-in t3 host>fake:0") {
		t.Errorf("moved %q: the biggest, t1, was to go", got)
	}
}

func TestErrBudget(t *testing.T) {
	check := func(t *testing.T, r *rig) {
		w, v, u := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight), r.declare("u", 8, device.Weight)
		r.fill(w, 'w')
		r.fill(v, 'v')
		r.fill(u, 'u')
		r.mustRead(u, 0, 'u')
		nop := func([][]byte) error { return nil }
		err := r.task(0, nop, Need{w, 0, Read}, Need{v, 0, Read})
		if !errors.Is(err, ErrBudget) {
			t.Fatalf("error is %v", err)
		}
		for _, part := range []string{"w u8[16]", "fake:0", "24 bytes", "budget 20"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if held := r.m.Memory(0).Used; held != 8 {
			t.Errorf("%d bytes held after the failure, want u's 8", held)
		}
		r.mustRead(w, 0, 'w') // still works
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{w, 0, Read}}, &l); err != nil {
			t.Fatal(err)
		}
		if err := r.task(0, nop, Need{v, 0, Read}); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "16 are leased") {
			t.Errorf("beside its own lease: %v", err)
		}
		if err := r.m.Release(&l, device.Event{}); err != nil {
			t.Fatal(err)
		}
		r.mustRead(v, 0, 'v')
	}
	t.Run("budget", func(t *testing.T) { check(t, newRig(t, 1, ManagerOptions{Budgets: []int64{20}})) })
	t.Run("device", func(t *testing.T) {
		r := newRig(t, 1, ManagerOptions{}, func(_ int, d *fakeDev) { d.capacity = 20 })
		w, v := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight)
		r.fill(w, 'w')
		r.fill(v, 'v')
		nop := func([][]byte) error { return nil }
		err := r.task(0, nop, Need{w, 0, Read}, Need{v, 0, Read})
		if !errors.Is(err, ErrBudget) || !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatalf("error is %v", err)
		}
		if held := r.m.Memory(0).Used; held != 0 {
			t.Errorf("%d bytes held after the failure", held)
		}
		r.mustRead(v, 0, 'v')
	})
}

// TestWaitsForMemory: memory that queued work still uses is waited for, not
// taken for another usage; a context ends the wait.
func TestWaitsForMemory(t *testing.T) {
	for _, limit := range []string{"budget", "device"} {
		t.Run(limit, func(t *testing.T) {
			o, change := ManagerOptions{Budgets: []int64{16}}, func(int, *fakeDev) {}
			if limit == "device" {
				o, change = ManagerOptions{}, func(_ int, d *fakeDev) { d.capacity = 16 }
			}
			r := newRig(t, 1, o, change)
			a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Grad)
			free := r.compute[0].(*fakeStream).hold()
			r.write(a, 0, 'a')
			if err := r.m.Drop(a); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			var l Lease
			needs := []Need{{b, 0, Write}}
			if err := r.m.Acquire(ctx, r.compute[0], needs, &l); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("acquired while the memory is in use: %v", err)
			}
			time.AfterFunc(10*time.Millisecond, free)
			r.write(b, 0, 'b')
			r.mustRead(b, 0, 'b')
		})
	}
}

// TestWaitsForOtherLeases: a lease of another stream is waited for.
func TestWaitsForOtherLeases(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Budgets: []int64{16}})
	a, b := r.declare("a", 16, device.Activation), r.declare("b", 16, device.Activation)
	second, err := r.devs[0].NewStream("second")
	if err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, second)
	for name, needs := range map[string][]Need{"room": {{b, 0, Write}}, "conflict": {{a, 0, ReadWrite}}} {
		r.write(a, 0, 'a')
		var l Lease
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, ReadWrite}}, &l); err != nil {
			t.Fatal(err)
		}
		if err := r.m.Acquire(short(t), r.compute[0], []Need{{a, 0, Read}}, new(Lease)); !errors.Is(err, ErrLeased) {
			t.Errorf("%s: conflict with its own lease: %v", name, err)
		}
		done := make(chan error)
		go func() {
			var l Lease
			err := r.m.Acquire(short(t), second, needs, &l)
			if err == nil {
				err = r.m.Release(&l, device.Event{})
			}
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("%s: did not wait: %v", name, err)
		case <-time.After(20 * time.Millisecond):
		}
		if err := r.m.Release(&l, device.Event{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeal(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{Strict: true, Budgets: []int64{40}}, func(i int, d *fakeDev) {
		if i == 1 {
			d.peers = false
		}
	})
	w, v, x := r.declare("w", 16, device.Weight), r.declare("v", 8, device.Weight), r.declare("x", 16, device.Input)
	r.fill(w, 'w')
	r.fill(v, 'v')
	r.write(w, 0, 'w')
	r.m.Seal()
	refused := func(err error, parts ...string) {
		t.Helper()
		if !errors.Is(err, ErrNotResident) {
			t.Fatalf("error is %v", err)
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%q does not say %q", err, p)
			}
		}
	}
	if err := r.m.Feed(x, r.hostBuffer(16, 'x')); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 0, 'x')
	refused(r.read(v, 0, 'v'), "copy-in", "v u8[8]", "read")
	refused(r.read(w, 1, 'w'), "transit", "w")
	refused(r.m.PullBack(short(t), Checkpoint, w), "checkpoint", "w")
	big := r.declare("big", 24, device.Activation)
	refused(r.task(0, func([][]byte) error { return nil }, Need{big, 0, Write}, Need{x, 0, Read}), "spill", "w", "over budget")
	r.m.Unseal(Checkpoint)
	if err := r.m.PullBack(short(t), Checkpoint, w); err != nil {
		t.Fatal(err)
	}
	r.write(w, 0, 'v')
	refused(r.m.PullBack(short(t), Log, w), "log", "w")
}

// TestSealCollects: what was allowed is told.
func TestSealCollects(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Strict: true})
	w, x := r.declare("w", 16, device.Weight), r.declare("x", 8, device.Input)
	r.write(w, 0, 'w')
	r.m.Seal()
	for range 2 {
		if err := r.m.Feed(x, r.hostBuffer(8, 'x')); err != nil {
			t.Fatal(err)
		}
		r.mustRead(x, 0, 'x')
	}
	r.m.Unseal(Log)
	if err := r.m.PullBack(short(t), Log, w); err != nil {
		t.Fatal(err)
	}
	r.m.Seal()
	r.write(w, 0, 'v')
	if err := r.m.PullBack(short(t), Log, w); !errors.Is(err, ErrNotResident) {
		t.Errorf("after the next seal: %v", err)
	}
	r.m.Unseal()
	if err := r.m.PullBack(short(t), Debug, w); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(r.m.Allowed())
	want := "[copy-in of input: 2 transfers, 16 bytes, first x pull-back (log) of weight: 1 transfers, 16 bytes, first w]"
	if got != want {
		t.Errorf("allowed %s, want %s", got, want)
	}
	loose := newRig(t, 1, ManagerOptions{})
	v := loose.declare("v", 8, device.Weight)
	loose.fill(v, 'v')
	loose.m.Seal()
	loose.mustRead(v, 0, 'v')
}

// shelf is a Store of patterns; it counts its reads.
type shelf struct {
	reads map[string]int
	err   error
}

func (s *shelf) Read(name string, dst []byte) error {
	s.reads[name]++
	if s.err != nil {
		return s.err
	}
	copy(dst, pattern(int64(len(dst)), name[0]))
	return nil
}

func TestStore(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{Budgets: []int64{16}, StagingBytes: 8})
	s := &shelf{reads: map[string]int{}}
	var ts []*Tensor
	for _, n := range []string{"a", "b", "c"} {
		x := r.declare(n, 8, device.Weight)
		if err := r.m.FromStore(x, s, n); err != nil {
			t.Fatal(err)
		}
		ts = append(ts, x)
	}
	nop := func([][]byte) error { return nil }
	if err := r.task(0, nop, Need{ts[0], 0, Read}, Need{ts[1], 0, Read}); err != nil {
		t.Fatal(err)
	}
	r.mustRead(ts[2], 0, 'c')
	r.mustRead(ts[2], 1, 'c')
	r.mustRead(ts[0], 0, 'a')
	want := "stream-in a store>fake:0; stream-in b store>fake:0; drop a fake:0>; stream-in c store>fake:0; " +
		"peer c fake:0>fake:1; drop b fake:0>; stream-in a store>fake:0"
	if got := r.kinds(); got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
	if got := ts[0].Location(); got != "store, clean on fake:0" {
		t.Errorf("a is at %s", got)
	}
	if d, err := r.m.EnsureHost(short(t), Fetch, ts[1]); err != nil || d.Data().([]uint8)[0] != 'b' {
		t.Errorf("pulled from the store: %v, %v", d, err)
	}
	r.write(ts[1], 0, 'z')
	r.mustRead(ts[1], 0, 'z')
	s.err = errors.New("disk on fire")
	if err := r.m.Drop(ts[0]); err != nil {
		t.Fatal(err)
	}
	if err := r.m.FromStore(ts[0], s, "a"); err != nil {
		t.Fatal(err)
	}
	if err := r.read(ts[0], 0, 'a'); !errors.Is(err, s.err) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("failing store: %v", err)
	}
	s.err = nil
	r.mustRead(ts[0], 0, 'a')
	conserved(t, r)
}

// TestStagingBound: no more is read from a store than may be on its way.
func TestStagingBound(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{StagingBytes: 12})
	s := &shelf{reads: map[string]int{}}
	a, b := r.declare("a", 8, device.Weight), r.declare("b", 8, device.Weight)
	for _, x := range []*Tensor{a, b} {
		if err := r.m.FromStore(x, s, x.Name()); err != nil {
			t.Fatal(err)
		}
	}
	free := r.devs[0].stream("copy-in").hold()
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	needs := []Need{{a, 0, Read}, {b, 0, Read}}
	if err := r.m.Acquire(soon, r.compute[0], needs, new(Lease)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if s.reads["a"] != 1 || s.reads["b"] != 0 || hosts(r.devs[0]) != 1 {
		t.Errorf("reads are %v, host buffers %d", s.reads, hosts(r.devs[0]))
	}
	free()
	r.mustRead(b, 0, 'b')
	r.mustRead(a, 0, 'a')
	if s.reads["a"] != 1 {
		t.Errorf("a was read %d times", s.reads["a"])
	}
}

// tape is a Sequence of patterns, one tensor a name.
type tape struct {
	names []string
	sizes []int64
	at    int
	read  bytes.Buffer
}

func (s *tape) Next() (string, int64, error) {
	if s.at == len(s.names) {
		return "", 0, io.EOF
	}
	s.at++
	return s.names[s.at-1], s.sizes[s.at-1], nil
}

func (s *tape) Read(dst []byte) error {
	s.read.WriteString(s.names[s.at-1])
	copy(dst, pattern(int64(len(dst)), s.names[s.at-1][0]))
	return nil
}

// TestSequence reads a store that cannot go back.
func TestSequence(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	s := &tape{names: []string{"a", "x", "b", "c"}, sizes: []int64{8, 8, 8, 9}}
	ts := map[string]*Tensor{}
	for _, n := range []string{"a", "b", "c", "d"} {
		ts[n] = r.declare(n, 8, device.Weight)
		if err := r.m.FromSequence(ts[n], s, n); err != nil {
			t.Fatal(err)
		}
	}
	r.mustRead(ts["b"], 0, 'b')
	r.mustRead(ts["a"], 0, 'a')
	if got := s.read.String(); got != "ab" {
		t.Errorf("read %q, want a kept on the way to b, x passed over", got)
	}
	if err := r.read(ts["c"], 0, 'c'); !errors.Is(err, ErrMismatch) {
		t.Errorf("wrong size: %v", err)
	}
	if err := r.read(ts["d"], 0, 'd'); !errors.Is(err, ErrUndefined) || !strings.Contains(err.Error(), `"d"`) {
		t.Errorf("not on the tape: %v", err)
	}
	want := "stream-in b store>fake:0; stream-in a store>fake:0"
	if got := r.kinds(); !strings.HasPrefix(got, want) {
		t.Errorf("moved %q, want %q", got, want)
	}
	if c := r.m.Ledger().Total(CopyIn); c.Count != 0 {
		t.Errorf("%v counted as copy-in", c)
	}
}

// TestFailures scripts one fault each and checks that it is told, that no lease
// stays, and that all is freed.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	for _, op := range []string{"copyin", "copypeer", "copyout", "alloc", "host", "launch", "wait"} {
		t.Run("call/"+op, func(t *testing.T) {
			r := newRig(t, 2, ManagerOptions{})
			w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
			r.fill(w, 'a')
			r.write(v, 0, 'v')
			free := r.devs[0].stream("copy-in").hold()
			for _, d := range r.devs {
				d.mu.Lock()
				d.failNow[op] = boom
				d.mu.Unlock()
			}
			err := errors.Join(r.read(w, 0, 'a'), r.read(v, 1, 'v'), r.m.PullBack(short(t), Fetch, v))
			if !errors.Is(err, boom) {
				t.Fatalf("error is %v", err)
			}
			if n := len(r.m.leases); n != 0 {
				t.Errorf("%d leases stay", n)
			}
			free()
			for _, d := range r.devs {
				d.mu.Lock()
				clear(d.failNow)
				d.mu.Unlock()
			}
			r.mustRead(w, 0, 'a')
			r.mustRead(v, 1, 'v')
		})
	}
	for _, op := range []string{"copyin", "copypeer", "copyout", "launch"} {
		t.Run("later/"+op, func(t *testing.T) {
			r := newRig(t, 2, ManagerOptions{})
			w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
			r.fill(w, 'a')
			r.write(v, 0, 'v')
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
			for _, d := range r.devs {
				d.mu.Lock()
				d.fail[op] = boom
				d.mu.Unlock()
			}
			nop := func([][]byte) error { return nil }
			err := errors.Join(r.task(0, nop, Need{w, 0, ReadWrite}), r.task(1, nop, Need{v, 1, Read}), r.m.PullBack(short(t), Fetch, v))
			for _, s := range r.compute {
				err = errors.Join(err, s.Record().Wait(short(t)))
			}
			if !errors.Is(err, boom) {
				t.Fatalf("error is %v", err)
			}
			if op == "copyin" || op == "launch" {
				if err := r.task(0, nop, Need{w, 0, Read}); !errors.Is(err, boom) || !strings.Contains(err.Error(), "w on fake:0") {
					t.Errorf("reading what failed: %v", err)
				}
			}
			if op == "copyout" {
				if _, err := r.m.Host(v); !errors.Is(err, ErrStale) {
					t.Errorf("host read of a failed pull-back: %v", err)
				}
			}
			if n := len(r.m.leases); n != 0 {
				t.Errorf("%d leases stay", n)
			}
		})
	}
}

// TestMoveIn: what was moved in is on its device alone, the host holds no more
// than may be on its way, and what finds no room stays where it was.
func TestMoveIn(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{Budgets: []int64{16}, StagingBytes: 12})
	var ts []*Tensor
	for _, name := range []string{"a", "b", "c"} {
		x := r.declare(name, 8, device.Weight)
		r.fill(x, name[0])
		ts = append(ts, x)
	}
	free := r.devs[0].stream("copy-in").hold()
	move := func(ctx context.Context, x *Tensor) error { return r.m.MoveIn(ctx, []Need{{x, 0, Read}}) }
	if err := move(short(t), ts[0]); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := move(soon, ts[1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("16 bytes on their way, 12 may be: %v", err)
	}
	free()
	for _, x := range ts {
		if err := move(short(t), x); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"fake:0", "fake:0", "host"} {
		if got := ts[i].Location(); got != want {
			t.Errorf("%v is at %s, want %s", ts[i], got, want)
		}
	}
	for i, x := range ts {
		r.mustRead(x, 0, "abc"[i])
	}
	conserved(t, r)
}

func TestFillWith(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	x := r.declare("x", 4, device.Weight)
	if err := r.m.FillWith(x, func(dst []byte) error { dst[1] = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("no such file")
	if err := r.m.FillWith(x, func(dst []byte) error { dst[0] = 9; return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	err := r.m.View(x, func(b []byte) error {
		if !bytes.Equal(b, []byte{0, 7, 0, 0}) {
			t.Errorf("contents are %v", b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
