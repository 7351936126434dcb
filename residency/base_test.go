package residency

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// bases are tenants of one manager of a device, to which they join with a base of two tensors of 8 bytes.
type bases struct {
	*testing.T
	d     *fakeDev
	m     *Manager
	waits chan string // names of tenants that wait in Join
}

func newBases(t *testing.T, capacity int64) *bases {
	t.Helper()
	x := &bases{T: t, d: newFake(0), waits: make(chan string, 8)}
	x.d.capacity = capacity
	var err error
	if x.m, err = New([]device.Device{x.d}, ManagerOptions{}); err != nil {
		t.Fatal(err)
	}
	x.m.devs[0].unit = 1
	t.Cleanup(func() {
		if bytes, waiting := x.m.floors.Reserved(); bytes[0] != 0 || waiting != 0 || len(x.m.bases) != 0 || len(x.m.tenants) != 0 {
			t.Errorf("%d bytes are reserved, %d wait, there are %d bases and %d tenants", bytes[0], waiting, len(x.m.bases), len(x.m.tenants))
		}
		if err := errors.Join(x.m.Close(), x.d.Close()); err != nil {
			t.Error(err)
		}
	})
	return x
}

// options are those of a tenant with a floor beside the base.
func (x *bases) options(name string, floor int64) TenantOptions {
	return TenantOptions{
		Name: name, Floors: []int64{floor}, Peaks: []int64{floor}, Strict: true, Waiting: func() { x.waits <- name },
		Base: &BaseOptions{Name: "base", ID: "1f", Tensors: []BaseTensor{
			{Key{Value: "w"}, shape.F32(2), []int{0}}, {Key{Value: "v"}, shape.F32(2), []int{0}},
		}},
	}
}

// join is a tenant with a compute stream. The caller closes it.
func (x *bases) join(name string, floor int64) *rig {
	x.Helper()
	r := &rig{T: x.T, devs: []*fakeDev{x.d}}
	o := x.options(name, floor)
	o.OnTransfer = func(row ledger.Row) { r.rows = append(r.rows, row) }
	var err error
	if r.m, err = x.m.Join(x.Context(), o); err != nil {
		x.Fatal(err)
	}
	s, err := x.d.NewStream(r.m.StreamName("compute"))
	if err != nil {
		x.Fatal(err)
	}
	r.compute = []device.Stream{s}
	return r
}

// leave closes a tenant.
func (x *bases) leave(r *rig) {
	x.Helper()
	if err := errors.Join(r.compute[0].Close(), r.m.Close()); err != nil {
		x.Error(err)
	}
}

// of are the tensors of a tenant's base.
func (x *bases) of(r *rig) (w, v *Tensor) {
	x.Helper()
	for name, to := range map[string]**Tensor{"w": &w, "v": &v} {
		t, err := r.m.Declare(Key{Value: name}, shape.F32(2), device.Weight)
		if err != nil {
			x.Fatal(err)
		}
		*to = t
	}
	return w, v
}

// fill gives the base its contents, if r is to.
func (x *bases) fill(r *rig) (filled bool) {
	x.Helper()
	w, v := x.of(r)
	err := r.m.FillBase(x.Context(), func() error {
		for t, b := range map[*Tensor]byte{w: 'w', v: 'v'} {
			if t.Filled() {
				continue
			}
			filled = true
			if err := errors.Join(r.m.Fill(t, pattern(8, b)), r.m.MoveIn(x.Context(), []Need{{t, 0, Read}})); err != nil {
				return err
			}
		}
		return r.m.AwaitMoves(x.Context())
	})
	if err != nil {
		x.Fatal(err)
	}
	return filled
}

// live expects memory in use, and floors that are reserved.
func (x *bases) live(what string, bytes, reserved int64) {
	x.Helper()
	have, _ := x.m.floors.Reserved()
	if n := x.d.Stats().Live; n != bytes || have[0] != reserved {
		x.Errorf("%s: %d bytes are in use and %d reserved, expected %d and %d", what, n, have[0], bytes, reserved)
	}
}

// TestBaseOnce: the base is copied in and counted once, and goes with the last of its tenants.
func TestBaseOnce(t *testing.T) {
	x := newBases(t, 64)
	a, b := x.join("a", 4), x.join("b", 6)
	if !x.fill(a) || x.fill(b) {
		t.Error("it is not filled by the first one alone")
	}
	x.live("two", 16, 16+4+6)
	w, v := x.of(a)
	if p, q := x.of(b); p != w || q != v || w.Name() != "base:w" || !w.Filled() {
		t.Errorf("%v and %v, %v and %v", w, p, v, q)
	}
	a.mustRead(w, 0, 'w')
	b.mustRead(v, 0, 'v')
	if in, none := a.m.Ledger().Total(ledger.CopyIn), b.m.Ledger().Total(ledger.CopyIn); in.Bytes != 16 || none.Count != 0 {
		t.Errorf("copied in: %+v, and %+v for the other", in, none)
	}
	if n := b.m.Ledger().Total(ledger.Hit).Bytes; n != 8 {
		t.Errorf("the other has read %d bytes where they are", n)
	}
	if own, base := b.m.Memory(0), b.m.BaseMemory(0); own.Live != 0 || base.Live != 16 || base.PeakBy[device.Weight] != 16 {
		t.Errorf("memory %+v and %+v", own, base)
	}
	if names := b.m.BaseUsers(); len(names) != 1 || names[0] != "a" {
		t.Errorf("beside b: %v", names)
	}
	for _, y := range b.m.Manager.Measure().Devices[0].Tenants {
		var want []string
		if y.Name == "base" {
			want = []string{"a", "b"}
		}
		if !slices.Equal(y.Users, want) {
			t.Errorf("%s is measured with the users %v, expected %v", y.Name, y.Users, want)
		}
	}
	for what, err := range map[string]error{
		"write":  b.task(0, func([][]byte) error { return nil }, Need{w, 0, Write}),
		"fill":   b.m.Fill(w, pattern(8, 'x')),
		"forget": b.m.Forget(w),
	} {
		if (err == nil) != (what == "forget") || what == "fill" && !errors.Is(err, ErrShared) {
			t.Errorf("%s: %v", what, err)
		}
	}
	x.leave(a)
	x.live("the second alone", 16, 16+6)
	b.mustRead(w, 0, 'w')
	x.leave(b)
	x.live("nobody", 0, 0)
	c := x.join("c", 4)
	if !x.fill(c) {
		t.Error("after the last one has gone, it is there")
	}
	x.leave(c)
}

// TestBaseHandedOn: of tenants that begin at once, the next one fills a base that the first one has not.
func TestBaseHandedOn(t *testing.T) {
	x := newBases(t, 64)
	a, b := x.join("a", 4), x.join("b", 4)
	w, v := x.of(a)
	boom := errors.New("boom")
	began, goOn, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		ended <- a.m.FillBase(t.Context(), func() error {
			began <- true
			<-goOn
			return errors.Join(a.m.Fill(w, pattern(8, 'w')), boom)
		})
	}()
	<-began
	over, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if err := b.m.FillBase(over, func() error { t.Error("two fill it at once"); return nil }); !errors.Is(err, boom) {
		t.Errorf("waiting in vain: %v", err)
	}
	goOn <- true
	if err := <-ended; !errors.Is(err, boom) {
		t.Error(err)
	}
	x.leave(a)
	if !w.Filled() || v.Filled() || !x.fill(b) || x.fill(b) {
		t.Error("the second one does not fill what the first one has left")
	}
	b.mustRead(w, 0, 'w')
	b.mustRead(v, 0, 'v')
	x.leave(b)
}

// TestBaseStays: with a tenant at work, other tensors leave a full device before the base; once all are suspended, it
// is the first to go, and it comes back.
func TestBaseStays(t *testing.T) {
	x := newBases(t, 40)
	a, b := x.join("a", 12), x.join("b", 12)
	x.fill(a)
	w, v := x.of(a)
	press := func(r *rig, names ...string) {
		t.Helper()
		for _, name := range names {
			r.write(r.declare(name, 12, device.Activation), 0, 'p')
		}
	}
	b.m.Suspend()
	press(a, "p", "q", "r")
	if w.Location() != "fake:0" || v.Location() != "fake:0" {
		t.Errorf("w is at %s, v at %s", w.Location(), v.Location())
	}
	x.live("one at work", 16+24, 16+12)
	other, err := x.m.Join(t.Context(), TenantOptions{Name: "other", Floors: []int64{12}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.m.Join(t.Context(), TenantOptions{Name: "more", Floors: []int64{1}, AtOnce: true}); !errors.Is(err, ErrOccupied) {
		t.Errorf("more than the memory beside the base: %v", err)
	}
	a.m.Suspend()
	x.live("all suspended", 40, 12)
	o := &rig{T: t, devs: []*fakeDev{x.d}, m: other, compute: a.compute}
	press(o, "s", "t", "u")
	if w.Location() != "host" || v.Location() != "host" {
		t.Errorf("once all are suspended, w is at %s, v at %s", w.Location(), v.Location())
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := b.m.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mustRead(w, 0, 'w')
	b.mustRead(v, 0, 'v')
	press(b, "p", "q", "r")
	if w.Location() != "host, clean on fake:0" {
		t.Errorf("w is at %s", w.Location())
	}
	x.leave(b)
	x.leave(a)
}

// TestBaseRoom: a base and a floor that exceed the device are refused; a tenant waits for both together.
func TestBaseRoom(t *testing.T) {
	x := newBases(t, 40)
	_, err := x.m.Join(t.Context(), x.options("large", 30))
	if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "46 B") {
		t.Errorf("too much: %v", err)
	}
	first, err := x.m.Join(t.Context(), TenantOptions{Name: "first", Floors: []int64{20}})
	if err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		u, err := x.m.Join(t.Context(), x.options("second", 10))
		if err == nil {
			err = u.Close()
		}
		joined <- err
	}()
	<-x.waits
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-joined; err != nil {
		t.Error(err)
	}
}

// TestBaseFailures: a tenant that fails to open, or is closed with the manager while another one waits, leaves nothing.
func TestBaseFailures(t *testing.T) {
	boom := errors.New("boom")
	x := newBases(t, 40)
	for n := range 6 { // streams of the tenant, and of the base's owner
		x.d.failNow["stream"], x.d.skip = boom, map[string]int{"stream": n}
		if _, err := x.m.Join(t.Context(), x.options("a", 4)); !errors.Is(err, boom) {
			t.Errorf("stream %d: %v", n, err)
		}
		x.live("after a failure", 0, 0)
	}
	a := x.join("a", 4)
	x.fill(a)
	joined := make(chan error, 1)
	go func() {
		_, err := x.m.Join(t.Context(), x.options("b", 24))
		joined <- err
	}()
	<-x.waits
	if err := errors.Join(a.compute[0].Close(), x.m.Close()); err != nil {
		t.Error(err)
	}
	if err := <-joined; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestBaseAtOnce: tenants that come, fill, compute, stand aside and go at once in a full device always read the base's contents.
func TestBaseAtOnce(t *testing.T) {
	x := newBases(t, 48) // the base, and two floors
	x.waits = make(chan string, 1<<16)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var group sync.WaitGroup
	for g := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		group.Go(func() {
			for n := range 40 {
				if err := x.visit(fmt.Sprintf("%d.%d", g, n), rng); err != nil {
					t.Errorf("visit %d of %d: %v", n, g, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// visit is a tenant from its begin to its end.
func (x *bases) visit(name string, rng *rand.Rand) (err error) {
	u, err := x.m.Join(x.Context(), x.options(name, 16))
	if err != nil {
		return err
	}
	s, err := x.d.NewStream(u.StreamName("compute"))
	if err != nil {
		return errors.Join(err, u.Close())
	}
	r := &rig{T: x.T, devs: []*fakeDev{x.d}, m: u, compute: []device.Stream{s}}
	defer func() { err = errors.Join(err, s.Close(), u.Close()) }()
	u.Unseal()
	x.fill(r)
	w, v := x.of(r)
	own := r.declare("own", 8, device.OptState)
	r.write(own, 0, name[0])
	for range 1 + rng.IntN(6) {
		switch rng.IntN(4) {
		case 0:
			u.Suspend()
			err = u.Continue(x.Context())
		case 1:
			err = r.read(w, 0, 'w')
		case 2:
			err = r.read(v, 0, 'v')
		default:
			r.write(r.declare("more", 8, device.Activation), 0, 'p')
			err = r.read(own, 0, name[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
