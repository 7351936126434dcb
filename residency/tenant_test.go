package residency

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
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
