package residency

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/ledger"
)

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
	for round := range 6 {
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
