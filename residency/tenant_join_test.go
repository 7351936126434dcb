package residency

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
)

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
		var u *tenant
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
