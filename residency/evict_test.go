package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestEviction compares the tensor evicted for a fourth one when three fit.
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
			if err := r.m.PullBack(context.Background(), ledger.Epoch, ts[0]); err != nil {
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
			r.m.SetUses(r.m.NewUses(reads(ts[0], ts[1], ts[2], ts[3], ts[0], ts[2], ts[1])))
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t1 fake:0>"},
		{"the order repeats", func(r *rig, ts []*Tensor) {
			r.m.SetUses(r.m.NewUses(reads(ts[0], ts[1], ts[2], ts[3])))
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t2 fake:0>"},
		{"never used again goes first", func(r *rig, ts []*Tensor) {
			r.m.SetUses(r.m.NewUses(reads(ts[1], ts[2], ts[3])))
			for i := range 3 {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t0 fake:0>"},
		{"a forgotten order is least recently used", func(r *rig, ts []*Tensor) {
			r.m.SetUses(r.m.NewUses(reads(ts[1], ts[2], ts[3])))
			r.m.SetUses(nil)
			for _, i := range []int{1, 0, 2} {
				r.mustRead(ts[i], 0, 'a')
			}
		}, "drop t1 fake:0>"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2, rigOptions{}, capacity(24, 24))
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
			conserved(t, r)
		})
	}
}

// reads is launches that read one tensor each.
func reads(ts ...*Tensor) (ls []Launch) {
	for _, t := range ts {
		ls = append(ls, Launch{Needs: []Need{{t, 0, Read}}})
	}
	return ls
}

// oldest is a device whose own policy gives up the copy that was used longest ago.
type oldest struct{ *fakeDev }

func (oldest) Victim(cs []device.Candidate) int {
	best := 0
	for i := range cs {
		if cs[i].LastUse < cs[best].LastUse {
			best = i
		}
	}
	return best
}

// A device's policy decides by what it likes: here by the last use, against the next one.
func TestLeastRecentlyUsed(t *testing.T) {
	d := newFake(0)
	d.capacity = 24
	r := &rig{T: t, devs: []*fakeDev{d}}
	m, err := Open([]device.Device{oldest{d}}, ManagerOptions{}, TenantOptions{OnTransfer: func(x ledger.Row) { r.rows = append(r.rows, x) }})
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	m.devs[0].unit = 1
	stream, err := d.NewStream("compute")
	if err != nil {
		t.Fatal(err)
	}
	r.compute = append(r.compute, stream)
	defer r.close()
	var ts []*Tensor
	for i := range 4 {
		x := r.declare(fmt.Sprint("t", i), 8, device.Weight)
		r.fill(x, 'a')
		ts = append(ts, x)
	}
	r.m.SetUses(r.m.NewUses(reads(ts[1], ts[0], ts[2], ts[3], ts[1])))
	for _, i := range []int{1, 0, 2} {
		r.mustRead(ts[i], 0, 'a')
	}
	r.kinds()
	r.mustRead(ts[3], 0, 'a')
	if got, want := r.kinds(), "drop t1 fake:0>; copy-in t3 host>fake:0"; !strings.HasPrefix(got, want) {
		t.Errorf("moved %q, want %q although t1 is needed next", got, want)
	}
}

func TestDevicePolicy(t *testing.T) {
	d := newFake(0)
	d.capacity = 32
	r := &rig{T: t, devs: []*fakeDev{d}}
	m, err := Open([]device.Device{choosy{d}}, ManagerOptions{}, TenantOptions{OnTransfer: func(x ledger.Row) { r.rows = append(r.rows, x) }})
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	m.devs[0].unit = 1
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

// choosy is a device with its own eviction policy: the biggest.
type choosy struct{ *fakeDev }

func (c choosy) Victim(cs []device.Candidate) int {
	best := 0
	for i := range cs {
		if cs[i].Bytes > cs[best].Bytes {
			best = i
		}
	}
	return best
}

// After a spill that could not be queued, the copies that were to leave the device
// can still leave it.
func TestEvictionAfterFailedSpill(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(24))
	var ts []*Tensor
	for i := range 3 {
		x := r.declare(fmt.Sprint("t", i), 8, device.Weight)
		r.write(x, 0, 'a')
		ts = append(ts, x)
	}
	large := r.declare("large", 24, device.Weight)
	r.fill(large, 'b')
	full := errors.New("the disk is full")
	r.devs[0].mu.Lock()
	r.devs[0].failNow["copyout"] = full
	r.devs[0].mu.Unlock()
	if err := r.read(large, 0, 'b'); !errors.Is(err, full) {
		t.Fatalf("a spill that fails: %v", err)
	}
	r.mustRead(large, 0, 'b')
	for _, x := range ts {
		r.mustRead(x, 0, 'a')
	}
}

// auditChoices compares each choice of victims with a look at all copies.
func (r *rig) auditChoices(fail func(format string, args ...any)) (choices *int) {
	choices = new(int)
	r.m.audit = func(d *devState, bytes int64, after int) {
		if d.evictor != nil {
			return
		}
		*choices++
		var got, want []string
		for _, t := range r.m.scratch.victims.list {
			got = append(got, t.name)
		}
		for _, t := range r.m.plainChoice(d, bytes, after) {
			want = append(want, t.name)
		}
		if !slices.Equal(got, want) {
			fail("%s gave up %v for %d bytes, want %v", d.id, got, bytes, want)
		}
	}
	return choices
}

// plainChoice picks the copies to give up with a look at all of them: the best of
// those that are left, until it is enough; then those stay, from the last one on,
// that are not needed.
func (m *Manager) plainChoice(d *devState, bytes int64, after int) []*Tensor {
	type choice struct {
		paging.Candidate
		t *Tensor
	}
	var all []choice
	for _, t := range d.residents {
		c := d.copy(t)
		distance, reads := d.next(t, m.clock)
		if c.locked() || distance <= after {
			continue
		}
		object := c.object - 1
		if object < 0 {
			object = c.other - 1
		}
		all = append(all, choice{d.candidate(t, object, distance, reads), t})
	}
	slices.SortFunc(all, func(a, b choice) int {
		if (a.Copies == 0) != (b.Copies == 0) {
			return a.Copies - b.Copies
		}
		if x, y := a.Distance*b.Copies, b.Distance*a.Copies; x != y {
			return y - x
		}
		return a.Object - b.Object
	})
	n := 0
	for ; n < len(all) && bytes > 0; n++ {
		bytes -= all[n].Bytes
	}
	var victims []*Tensor
	for i := n - 1; i >= 0; i-- {
		if bytes+all[i].Bytes <= 0 {
			bytes += all[i].Bytes
		} else {
			victims = append([]*Tensor{all[i].t}, victims...)
		}
	}
	return victims
}

// The queues of a device choose as a look at all its copies would, through pull-backs,
// drops, peers and changes of the order.
func TestChoicesLookAtAllCopies(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, capacity(64, 64))
	choices := r.auditChoices(t.Fatalf)
	var ts []*Tensor
	for i := range 12 {
		ts = append(ts, r.declare(fmt.Sprint("t", i), 8+i%3*4, device.Weight))
		r.fill(ts[i], byte('a'+i))
	}
	modes := []Mode{Read, ReadWrite, Write}
	for round := range 9 {
		if round > 0 && round < 4 {
			var launches []Launch
			for i := range ts {
				launches = append(launches, Launch{Needs: []Need{{ts[(i*5+round)%12], i % 2, modes[(i+round)%3]}}})
			}
			r.m.SetUses(r.m.NewUses(launches))
		}
		for i := range 24 {
			x := ts[(i*5+round)%12]
			if err := r.task(i%2, func([][]byte) error { return nil }, Need{x, i % 2, modes[(i+round)%3]}); err != nil {
				t.Fatal(err)
			}
			switch y := ts[i*7%12]; i % 5 {
			case 0:
				if err := r.m.PullBack(short(t), ledger.Fetch, y); err != nil {
					t.Fatal(err)
				}
			case 1:
				r.fill(y, 'z')
			case 2:
				if err := r.m.Prefetch(short(t), []Need{{y, 0, Read}, {y, 1, Read}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if *choices < 50 {
		t.Errorf("only %d choices", *choices)
	}
}
