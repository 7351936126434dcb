package residency

import (
	"runtime"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestMeasure: what Measure says of tenants adds up to what the device has given out, by usage, and bytes that move are
// counted for the tenant and, also after its end, for the device. It waits for no task.
func TestMeasure(t *testing.T) {
	rs := tenants(t, 40, "busy", "suspended")
	busy, other := rs[0], rs[1]
	m := busy.m.Manager
	look := func(what string, want map[string]map[string]int64) Memory {
		t.Helper()
		m.mu.Lock() // as a task does
		m.Measure() // what was before
		x := m.Measure()
		m.mu.Unlock()
		d := x.Devices[0]
		if d.ID != "fake:0" || d.Limit != 40 || d.Used() != m.devs[0].dev.Stats().Live {
			t.Errorf("%s: %+v, and the device has given out %d bytes", what, d, m.devs[0].dev.Stats().Live)
		}
		for _, u := range d.Tenants {
			if len(u.ByUsage) != device.NumUsages {
				t.Errorf("%s: %s has the usages %v", what, u.Name, u.ByUsage)
			}
			for usage, n := range u.ByUsage {
				if n != want[u.Name][usage] {
					t.Errorf("%s: %s has %d bytes of %s, expected %d", what, u.Name, n, usage, want[u.Name][usage])
				}
			}
		}
		if len(d.Tenants) != len(want) {
			t.Errorf("%s: there are %d tenants, expected %d", what, len(d.Tenants), len(want))
		}
		return x
	}
	type by = map[string]map[string]int64
	look("before", by{"busy": {}, "suspended": {}})
	x, w := busy.declare("x", 12, device.Weight), other.declare("w", 16, device.OptState)
	busy.write(x, 0, 'x')
	other.write(w, 0, 'w')
	other.m.SetUses(other.m.NewUses(reads(w)))
	other.mustRead(w, 0, 'w')
	other.m.Suspend()
	now := look("suspended", by{"busy": {"weight": 12}, "suspended": {"opt_state": 16}})
	if a, b := now.Devices[0].Tenants[0], now.Devices[0].Tenants[1]; a.Suspended || !b.Suspended {
		t.Errorf("suspended: %v and %v", a.Suspended, b.Suspended)
	}
	z := busy.declare("z", 24, device.Activation)
	busy.write(z, 0, 'z')
	now = look("spilled", by{"busy": {"weight": 12, "activation": 24}, "suspended": {}})
	if got, want := now.Devices[0].Tenants[1].Moves, (Moves{Out: 16, Spilled: 16}); got != want {
		t.Errorf("moves of the suspended tenant %+v, expected %+v", got, want)
	}
	if now.Host.Tensors < 16 || now.Host.Tensors != m.HostMemory().Used {
		t.Errorf("host memory %+v, expected %d", now.Host, m.HostMemory().Used)
	}
	if _, err := busy.onHost(t.Context(), ledger.Fetch, x); err != nil {
		t.Fatal(err)
	}
	if err := busy.m.Drop(z); err != nil {
		t.Fatal(err)
	}
	if err := other.m.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.mustRead(w, 0, 'w')
	now = look("back", by{"busy": {"weight": 12}, "suspended": {"opt_state": 16}})
	if got, want := now.Devices[0].Tenants[1].Moves, (Moves{In: 16, Out: 16, Spilled: 16}); got != want {
		t.Errorf("moves of the tenant that goes on %+v, expected %+v", got, want)
	}
	if err := other.m.Close(); err != nil {
		t.Fatal(err)
	}
	now = look("closed", by{"busy": {"weight": 12}})
	if got, want := now.Devices[0].Moves, (Moves{In: 16, Out: 28, Spilled: 16}); got != want {
		t.Errorf("moves of the device %+v, expected %+v", got, want)
	}
}

// TestMostIsGivenBack: what a device had when somebody asked counts as its most, if it has given that back before it has more.
func TestMostIsGivenBack(t *testing.T) {
	r := tenants(t, 40, "one")[0]
	used := func(want int64) {
		t.Helper()
		if d := r.m.Manager.Measure().Devices[0]; d.Used() != want {
			t.Errorf("%d bytes at most, expected %d: %v", d.Used(), want, d.Tenants[0].ByUsage)
		}
	}
	x, y := r.declare("x", 12, device.Weight), r.declare("y", 4, device.Activation)
	r.write(x, 0, 'x')
	used(12)
	used(12)
	if err := r.m.Drop(x); err != nil {
		t.Fatal(err)
	}
	r.write(y, 0, 'y')
	used(12)
	used(4)
	r.write(x, 0, 'x')
	used(16)
}

// TestMostIsOfOneInstant: bytes that go from one tenant to another, and are nobody's in between, are seen once at most, while they
// move.
func TestMostIsOfOneInstant(t *testing.T) {
	const all = 100
	d := &devState{}
	list := []*tenancy{{d: d}, {d: d}, {d: d}}
	list[0].count(device.Weight, all)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
				list[i%3].count(device.Weight, -all)
				list[(i+1)%3].count(device.Weight, all)
			}
		}
	}()
	defer func() { close(end); <-ended }()
	moved := map[int]int{}
	for began := time.Now(); len(moved) < len(list) || time.Since(began) < 50*time.Millisecond; {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the bytes were seen with %d of the tenants", len(moved))
		}
		var sum int64
		at := 0
		d.most.read(func(idle bool) {
			sum = 0
			for i, y := range list {
				of := &y.most
				if idle {
					of = &y.live
				}
				runtime.Gosched() // bytes move meanwhile
				n := of[device.Weight].Load()
				if sum += n; n > 0 {
					at = i
				}
			}
		})
		if sum != 0 && sum != all {
			t.Fatalf("%d bytes of %d are seen", sum, all)
		}
		if sum == all {
			moved[at]++
		}
	}
}
