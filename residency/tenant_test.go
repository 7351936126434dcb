package residency

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// tenants are rigs on one manager: a tenant with a compute stream for each name.
func tenants(t *testing.T, capacity int64, names ...string) []*rig {
	t.Helper()
	d := newFake(0)
	d.capacity = capacity
	m, err := New([]device.Device{d}, ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.devs[0].unit = 1
	var rigs []*rig
	for _, name := range names {
		r := &rig{T: t, devs: []*fakeDev{d}}
		r.m, err = m.Join(t.Context(), TenantOptions{Name: name, Strict: true, Peaks: []int64{capacity - 1}, OnTransfer: func(x ledger.Row) { r.rows = append(r.rows, x) }})
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.NewStream(r.m.StreamName("compute"))
		if err != nil {
			t.Fatal(err)
		}
		r.compute = []device.Stream{s}
		rigs = append(rigs, r)
	}
	t.Cleanup(func() {
		var errs []error
		for _, r := range rigs {
			errs = append(errs, r.compute[0].Close(), r.m.Close())
		}
		if err := errors.Join(append(errs, m.Close(), d.Close())...); err != nil {
			t.Error(err)
		}
	})
	return rigs
}

// TestTenantsAreApart: tensors, ledgers, counts of memory and leases are each
// tenant's own.
func TestTenantsAreApart(t *testing.T) {
	rs := tenants(t, 40, "a", "b")
	a, b := rs[0], rs[1]
	x, y := a.declare("w", 8, device.Weight), b.declare("w", 8, device.Weight)
	if x == y || x.Name() != "a:w" || y.Name() != "b:w" || x.Key().Tenant != "a" {
		t.Errorf("tensors %v and %v", x, y)
	}
	a.fill(x, 'a')
	b.fill(y, 'b')
	a.mustRead(x, 0, 'a')
	b.mustRead(y, 0, 'b')
	if got := a.kinds(); got != "copy-in a:w host>fake:0" {
		t.Errorf("a moved %q", got)
	}
	if n := b.m.Ledger().Total(ledger.CopyIn); n != (ledger.Count{Count: 1, Bytes: 8}) {
		t.Errorf("b copied in %+v", n)
	}
	if got := a.m.Memory(0); got.Live != 8 || got.PeakBy[device.Weight] != 8 {
		t.Errorf("a has %+v", got)
	}
	if err := a.read(y, 0, 'b'); err == nil {
		t.Error("a has leased b's tensor")
	}
	if err := a.m.Close(); err != nil {
		t.Error(err)
	}
	if live := a.devs[0].Stats().Live; live != 8 {
		t.Errorf("after a has closed, %d bytes are in use", live)
	}
	b.mustRead(y, 0, 'b')
	if err := a.m.Fill(x, pattern(8, 'c')); !errors.Is(err, ErrClosed) {
		t.Errorf("fill of a closed tenant's tensor: %v", err)
	}
	if _, err := a.m.Declare(Key{Value: "v"}, shape.F32(1), device.Weight); !errors.Is(err, ErrClosed) {
		t.Errorf("declare by a closed tenant: %v", err)
	}
}

// TestIdleTenantGivesWay: the weights of a tenant that does nothing leave before
// those of one that works, seal or not, and come back.
func TestIdleTenantGivesWay(t *testing.T) {
	rs := tenants(t, 40, "idle", "busy")
	idle, busy := rs[0], rs[1]
	w := idle.declare("w", 16, device.Weight)
	idle.write(w, 0, 'w')
	idle.m.SetUses(idle.m.NewUses(reads(w)))
	idle.mustRead(w, 0, 'w')
	var ts []*Tensor
	for _, name := range []string{"x", "y", "z"} {
		ts = append(ts, busy.declare(name, 12, device.Weight))
		busy.fill(ts[len(ts)-1], name[0])
	}
	busy.m.SetUses(busy.m.NewUses(reads(ts...)))
	idle.m.Seal()
	for range 3 {
		for _, x := range ts {
			busy.mustRead(x, 0, x.key.Value[0])
		}
	}
	if got := w.Location(); got != "host" {
		t.Errorf("the idle tenant's weight is at %s", got)
	}
	if n := busy.m.Ledger().Total(ledger.CopyIn).Count; n != 3 {
		t.Errorf("%d copies to the device for the busy tenant's 3 weights", n)
	}
	idle.mustRead(w, 0, 'w')
	if list := idle.m.Allowed(); len(list) != 2 {
		t.Errorf("allowed: %v", list)
	}
}

// TestForget frees records: a tenant that declares and forgets stays small.
func TestForget(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	for range 100 {
		x := r.declare("x", 8, device.Activation)
		r.write(x, 0, 'x')
		if err := r.m.Forget(x); err != nil {
			t.Fatal(err)
		}
	}
	if n, live := r.m.Tensors(), r.devs[0].Stats().Live; n != 0 || live != 0 {
		t.Errorf("%d records and %d bytes are left", n, live)
	}
	x := r.declare("x", 8, device.Activation)
	var l Lease
	if err := r.m.Acquire(short(t), r.compute[0], []Need{{x, 0, Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Forget(x); !errors.Is(err, ErrLeased) || r.m.Tensors() != 1 {
		t.Errorf("forgetting a leased tensor: %v", err)
	}
	if err := r.m.Abandon(&l); err != nil {
		t.Error(err)
	}
}

// joins opens a manager on devices of 40 bytes, and joins tenants with floors: each
// call's result comes through a channel.
func joins(t *testing.T, devices int) (m *Manager, join func(ctx context.Context, name string, floors ...int64) <-chan error, leave func(name string)) {
	t.Helper()
	var devs []device.Device
	for i := range devices {
		d := newFake(i)
		d.capacity = 40
		devs = append(devs, d)
	}
	m, err := New(devs, ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := m.Close()
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	waiting := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, waiting := m.floors.Reserved()
		return waiting + len(m.tenants)
	}
	join = func(ctx context.Context, name string, floors ...int64) <-chan error {
		result, before := make(chan error, 1), waiting()
		go func() {
			_, err := m.Join(ctx, TenantOptions{Name: name, Floors: floors})
			result <- err
		}()
		for waiting() == before && len(result) == 0 { // so that calls come in order
		}
		return result
	}
	leave = func(name string) {
		m.mu.Lock()
		var u *Tenant
		for _, x := range m.tenants {
			if x.opt.Name == name {
				u = x
			}
		}
		m.mu.Unlock()
		if err := m.dismiss(u); err != nil {
			t.Error(err)
		}
	}
	return m, join, leave
}

// TestJoinWaitsItsTurn: floors that do not fit together wait, the first come first.
func TestJoinWaitsItsTurn(t *testing.T) {
	m, join, leave := joins(t, 2)
	ctx := short(t)
	joined := func(result <-chan error, who string) {
		t.Helper()
		select {
		case err := <-result:
			if err != nil {
				t.Fatalf("%s: %v", who, err)
			}
		case <-ctx.Done():
			t.Fatalf("%s has not joined", who)
		}
	}
	waits := func(result <-chan error, who string) {
		t.Helper()
		if len(result) > 0 {
			t.Errorf("%s joined: %v", who, <-result)
		}
	}
	joined(join(ctx, "a", 30), "a")
	b, c := join(ctx, "b", 20), join(ctx, "c", 5)
	joined(join(ctx, "d", 0, 40), "d, on the other device")
	waits(b, "b")
	waits(c, "c, behind b")
	over, cancel := context.WithCancelCause(ctx)
	e := join(over, "e", 40)
	f := join(ctx, "f", 15)
	leave("a")
	joined(b, "b")
	joined(c, "c")
	waits(e, "e")
	waits(f, "f, behind e")
	stop := errors.New("enough")
	cancel(stop)
	if err := <-e; !errors.Is(err, stop) || !strings.Contains(err.Error(), "e waits for device memory") {
		t.Errorf("e: %v", err)
	}
	joined(f, "f")
	if x, _ := m.floors.Reserved(); x[0] != 40 || x[1] != 40 {
		t.Errorf("%d bytes are reserved", x)
	}
	g := join(ctx, "g", 1)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-g; !errors.Is(err, ErrClosed) {
		t.Errorf("g: %v", err)
	}
	if _, err := m.Join(ctx, TenantOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestJoinRefuses: a floor that never fits, and a name that is taken.
func TestJoinRefuses(t *testing.T) {
	m, join, _ := joins(t, 1)
	if err := <-join(t.Context(), "large", 41); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "41 B") || !strings.Contains(err.Error(), "40 B") {
		t.Errorf("a floor beyond the device: %v", err)
	}
	if err := <-join(t.Context(), "two", 1, 1); !errors.Is(err, ErrMismatch) {
		t.Errorf("two floors for a device: %v", err)
	}
	if err := <-join(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := <-join(t.Context(), "a"); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("the same name: %v", err)
	}
	if err := <-join(t.Context(), "b", 30); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{ErrOccupied, nil} {
		floor := int64(11 - i)
		if _, err := m.Join(t.Context(), TenantOptions{Name: "c", Floors: []int64{floor}, AtOnce: true}); !errors.Is(err, want) {
			t.Errorf("a floor of %d, at once: %v", floor, err)
		}
	}
	if n := len(m.tenants); n != 3 {
		t.Errorf("%d tenants", n)
	}
}

// A call that waits has no streams: Close finds all that are open.
func TestJoinOpensStreamsOnceItHasItsFloors(t *testing.T) {
	m, join, leave := joins(t, 1)
	d := m.devs[0].dev.(*fakeDev)
	if err := <-join(t.Context(), "a", 40); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.streams)
	}
	before := open()
	b := join(t.Context(), "b", 1)
	if n := open(); n != before {
		t.Errorf("%d streams, %d before a tenant waited", n, before)
	}
	leave("a")
	if err := <-b; err != nil {
		t.Fatal(err)
	}
	if n := open(); n == before {
		t.Error("the second tenant has no streams")
	}
}

// TestJoinTakesRoom: a tenant has the room in the file that all tenants together need
// beyond the bound, or is refused; when it leaves, the room is given back.
func TestJoinTakesRoom(t *testing.T) {
	const mib = 1 << 20
	m, err := New([]device.Device{newFake(0)}, ManagerOptions{HostBytes: 8 * mib, SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	size := func(want int64) {
		t.Helper()
		if have := m.HostMemory().Spilled; have != want {
			t.Errorf("the file has %d bytes, expected %d", have, want)
		}
	}
	join := func(name string, bytes int64) (*Tenant, error) {
		return m.Join(t.Context(), TenantOptions{Name: name, HostBytes: bytes})
	}
	a, err := join("a", 8*mib)
	if err != nil {
		t.Fatal(err)
	}
	size(0)
	b, err := join("b", 20*mib)
	if err != nil {
		t.Fatal(err)
	}
	size(25 * mib)
	if _, err := join("c", 1<<50); !errors.Is(err, hostfile.ErrNoRoom) {
		t.Errorf("more than the disk has: %v", err)
	}
	size(25 * mib)
	c, err := join("c", 5*mib)
	if err != nil {
		t.Fatal(err)
	}
	size(41 * mib) // it grows by 16 MiB at least
	if err := errors.Join(c.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "linux" { // others give nothing back
		size(0)
	}
	if err := errors.Join(a.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}
