package jobs

import (
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// TestMemory: the daemon says which job has which memory while they train, and what of a suspended one has left its device for
// another. It does so with the daemon's lock taken, as a step does.
func TestMemory(t *testing.T) {
	const room = 320 << 10
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1", Memory: configs.Memory{Bytes: room}, HostMemory: 1 << 30})
	if m := d.Memory(); len(m.Devices) != 1 || m.Devices[0].ID != "cpu:0" || m.Devices[0].Limit != room || m.Devices[0].Used() != 0 || m.Host.Limit != 1<<30 {
		t.Fatalf("before a job, the memory is %+v", m)
	}
	look := func() (m berth.Memory, of map[int]berth.TenantMemory) {
		d.mu.Lock()
		m = d.Memory()
		d.mu.Unlock()
		of = map[int]berth.TenantMemory{}
		if used := m.Devices[0].Used(); used > room {
			t.Fatalf("%d bytes of %d are used: %+v", used, room, m)
		}
		for _, x := range m.Devices[0].Tenants {
			of[x.Job] = x
		}
		return m, of
	}
	until := func(what string, fits func(m berth.Memory, of map[int]berth.TenantMemory) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Microsecond) {
			m, of := look()
			if fits(m, of) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("never %s: %+v", what, m)
			}
		}
	}
	first := d.submit(t, dir, "long", text(t, "train.epochs=30", "seed=1"))
	until("the first job alone", func(m berth.Memory, of map[int]berth.TenantMemory) bool {
		x, there := of[first]
		return there && len(of) == 1 && !x.Suspended && x.ByUsage["weight"] > 0 && x.ByUsage["opt_state"] > 0 && x.Floor > 0 && x.Peak >= x.Floor && m.Host.Data > 0
	})
	second := d.submit(t, dir, "short", text(t, "train.epochs=3", "seed=2"))
	until("the first job suspended, and its memory the second one's", func(m berth.Memory, of map[int]berth.TenantMemory) bool {
		x, y := of[first], of[second]
		return x.Suspended && x.Moves.Spilled > 0 && !y.Suspended && y.ByUsage["weight"] > 0 && m.Host.Tensors >= x.Moves.Spilled-x.Moves.In
	})
	for _, id := range []int{second, first} {
		d.await(t, id)
	}
	if m, of := look(); len(of) != 0 || m.Devices[0].Used() != 0 || m.Devices[0].Moves.Spilled == 0 || m.Devices[0].Moves.In == 0 {
		t.Errorf("after the jobs, the memory is %+v", m)
	}
}
