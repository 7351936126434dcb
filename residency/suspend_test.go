package residency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestSuspendedTenantGivesWay: what a suspended tenant has leaves before what others use, though it
// was used last, and comes back.
func TestSuspendedTenantGivesWay(t *testing.T) {
	rs := tenants(t, 40, "busy", "suspended")
	busy, other := rs[0], rs[1]
	var ts []*Tensor
	for _, name := range []string{"x", "y"} {
		ts = append(ts, busy.declare(name, 12, device.Weight))
		busy.write(ts[len(ts)-1], 0, name[0])
	}
	w := other.declare("w", 16, device.Weight)
	other.write(w, 0, 'w')
	other.m.SetUses(other.m.NewUses(reads(w)))
	other.mustRead(w, 0, 'w')
	other.m.Suspend()
	other.m.Suspend()
	if w.Location() != "fake:0" {
		t.Errorf("before others need the room, it is at %s", w.Location())
	}
	if err := other.read(w, 0, 'w'); !errors.Is(err, ErrSuspended) {
		t.Errorf("a task of a suspended tenant: %v", err)
	}
	z := busy.declare("z", 12, device.Weight)
	busy.write(z, 0, 'z')
	if w.Location() != "host" || ts[0].Location() != "fake:0" || ts[1].Location() != "fake:0" {
		t.Errorf("w is at %s, x at %s, y at %s", w.Location(), ts[0].Location(), ts[1].Location())
	}
	if _, err := other.onHost(t.Context(), ledger.Fetch, w); err != nil {
		t.Errorf("reading it meanwhile: %v", err)
	}
	if err := other.m.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.mustRead(w, 0, 'w')
}

// TestSuspendedFloors: the floors of a suspended tenant are room for others. Going on waits for them in
// the line of those that join, and the end of its context ends that.
func TestSuspendedFloors(t *testing.T) {
	d := newFake(0)
	d.capacity = 40
	m, err := New([]device.Device{d}, ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(m.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}()
	waits := make(chan struct{}, 8)
	join := func(name string) *Tenant {
		t.Helper()
		u, err := m.Join(t.Context(), TenantOptions{Name: name, Floors: []int64{30}, Waiting: func() { waits <- struct{}{} }})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	a := join("a")
	a.Suspend()
	b := join("b")
	over, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	went := make(chan error, 1)
	go func() { went <- a.Continue(over) }()
	<-waits
	cancel(enough)
	if err := <-went; !errors.Is(err, enough) || !a.Suspended() {
		t.Errorf("going on without room: %v", err)
	}
	go func() { went <- a.Continue(t.Context()) }()
	<-waits
	b.Suspend()
	select {
	case err := <-went:
		if err != nil || a.Suspended() {
			t.Errorf("going on: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not go on though there is room")
	}
	for _, u := range []*Tenant{b, a} { // b is suspended, and gives nothing back
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	if bytes, waiting := m.floors.Reserved(); bytes[0] != 0 || waiting != 0 {
		t.Errorf("%d bytes are reserved, and %d wait", bytes[0], waiting)
	}
	if err := b.Continue(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("going on after the end: %v", err)
	}
	if bytes, _ := m.floors.Reserved(); bytes[0] != 0 {
		t.Errorf("%d bytes are reserved", bytes[0])
	}
}
