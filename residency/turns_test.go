package residency

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/engine/shape"
)

// taking joins two tenants that take turns, of which the first has given its floors to the second, and waits. base is what they
// have together; nil: nothing.
func taking(t *testing.T, base *BaseOptions) (m *Manager, a, b *Tenant) {
	t.Helper()
	var devs []device.Device
	for i := range 2 {
		d := newFake(i)
		d.capacity = 400
		devs = append(devs, d)
	}
	m, err := New(devs, ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if bytes, waiting := m.floors.Reserved(); bytes[0] != 0 || bytes[1] != 0 || waiting != 0 {
			t.Errorf("%d bytes are reserved, and %d wait", bytes, waiting)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	waits := make(chan struct{}, 1)
	join := func(name string) (*Tenant, error) {
		return m.Join(t.Context(), TenantOptions{
			Name: name, Floors: []int64{200, 240}, Base: base, Turns: true,
			Waiting: func() { waits <- struct{}{} },
		})
	}
	if a, err = join("a"); err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		var err error
		b, err = join("b")
		joined <- err
	}()
	<-waits
	if !a.Wanted() || !a.Due() || !a.Yield() || a.Yield() || !a.Suspended() || a.Wanted() {
		t.Fatal("it does not give its floors away, once")
	}
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	return m, a, b
}

// TestTurnsOfTenants: tenants take turns on two devices, with what they have in common. What ends the wait for a turn gives the
// tenant's place in the line up.
func TestTurnsOfTenants(t *testing.T) {
	stop := errors.New("enough")
	for name, end := range map[string]func(m *Manager, a, b *Tenant, cancel context.CancelCauseFunc) error{
		"its turn":            func(_ *Manager, _, b *Tenant, _ context.CancelCauseFunc) error { return yields(b) },
		"the other one's end": func(_ *Manager, _, b *Tenant, _ context.CancelCauseFunc) error { return b.Close() },
		"the other one is suspended": func(_ *Manager, _, b *Tenant, _ context.CancelCauseFunc) error {
			b.Suspend()
			return nil
		},
		"it is cancelled": func(_ *Manager, _, _ *Tenant, cancel context.CancelCauseFunc) error { cancel(stop); return nil },
		"it is suspended": func(_ *Manager, a, _ *Tenant, cancel context.CancelCauseFunc) error { // or goes on in the line, for the test is early
			a.Suspend()
			cancel(stop)
			return nil
		},
		"it is closed": func(_ *Manager, a, _ *Tenant, _ context.CancelCauseFunc) error { return a.Close() },
		"a device is lost": func(m *Manager, _, _ *Tenant, _ context.CancelCauseFunc) error {
			m.Lose(1, stop)
			return nil
		},
	} {
		for _, with := range []string{"", " with a base"} {
			t.Run(name+with, func(t *testing.T) {
				var base *BaseOptions
				if with != "" {
					base = &BaseOptions{Name: "base", ID: "1", Tensors: []BaseTensor{{
						Key: Key{Value: "w"}, Meta: shape.F32(2), Devices: []int{0, 1},
					}}}
				}
				m, a, b := taking(t, base)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				went := make(chan error, 1)
				go func() { went <- a.Continue(ctx) }()
				if err := end(m, a, b, cancel); err != nil {
					t.Fatal(err)
				}
				err := <-went
				switch name {
				case "its turn", "the other one's end", "the other one is suspended":
					if err != nil || a.Suspended() {
						t.Errorf("its turn: %v", err)
					}
				case "it is cancelled", "a device is lost":
					if !errors.Is(err, stop) || !a.Suspended() {
						t.Errorf("got %v", err)
					}
				case "it is suspended", "it is closed":
					if err == nil || !a.Suspended() {
						t.Error("it goes on")
					}
				}
				if err := errors.Join(a.Close(), b.Close()); err != nil {
					t.Error(err)
				}
				if err := a.Continue(t.Context()); a.Suspended() && !errors.Is(err, ErrClosed) && !errors.Is(err, stop) {
					t.Errorf("after its end: %v", err)
				}
			})
		}
	}
}

// yields ends a tenant's turn.
func yields(u *Tenant) error {
	if !u.Due() || !u.Yield() {
		return errors.New("it is not due")
	}
	return nil
}

// TestTurnsOnTheHost: a tenant whose tensors have no room on the host beside those of one that waits for its turn waits until a
// tenant has closed. With a bound on host memory, the disk must have the room even for one that is alone.
func TestTurnsOnTheHost(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		turnsOnTheHost(t, ManagerOptions{HostBytes: 1 << 20, SpillDir: t.TempDir()}, hostfile.ErrNoRoom)
	})
	t.Run("memory", func(t *testing.T) { turnsOnTheHost(t, ManagerOptions{}, nil) })
}

// turnsOnTheHost has a tenant take more than there is on the host, beside another one and then alone, which ends as said.
func turnsOnTheHost(t *testing.T, o ManagerOptions, alone error) {
	m, err := New([]device.Device{newFake(0)}, o)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan string, 4)
	join := func(ctx context.Context, name string, floor, bytes int64) (*Tenant, error) {
		return m.Join(ctx, TenantOptions{Name: name, Floors: []int64{floor}, HostBytes: bytes, Turns: true, Waiting: func() { waits <- name }})
	}
	all := m.devs[0].spec.MemoryBytes
	a, err := join(t.Context(), "a", all, 0)
	if err != nil {
		t.Fatal(err)
	}
	const tooMuch = 1 << 50
	joined := make(chan error, 1)
	try := func() {
		b, err := join(t.Context(), "b", all, tooMuch)
		if err == nil {
			err = b.Close()
		}
		joined <- err
	}
	go try()
	<-waits
	if err := yields(a); err != nil {
		t.Fatal(err)
	}
	if err := a.Continue(t.Context()); err != nil { // the other one has given the device back
		t.Fatal(err)
	}
	select {
	case err := <-joined:
		t.Fatalf("it does not wait: %v", err)
	default:
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // its name is free again
		if err := <-joined; !errors.Is(err, alone) {
			t.Errorf("alone: %v", err)
		}
		go try()
	}
	<-joined
	if len(waits) > 0 {
		t.Error("it is told twice that it waits")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
