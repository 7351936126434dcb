package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// errRoom is why a task ends whose host memory another job needs. It goes on later from where
// it was saved.
var errRoom = errors.New("another job needs its host memory")

// hostBytes is the most host memory that jobs take at once. Data that they have in common counts once.
func hostBytes(list []queue.Job) (all, data int64) {
	seen := map[string]bool{}
	for i := range list {
		j := &list[i]
		if all += j.Host; !seen[j.DataID] {
			seen[j.DataID] = true
			data += j.Data
		}
	}
	return all + data, data
}

// memory says who has host memory, of the jobs that have devices.
type memory struct {
	most    int64          // for all jobs together
	granted []queue.Job    // those that have it, from the front of the line
	short   map[int]string // why others do not begin
}

// fits says whether jobs can be open together. One alone can, whatever it takes.
func (m *memory) fits(list ...queue.Job) bool {
	all, _ := hostBytes(list)
	return len(list) <= 1 || all <= m.most
}

func (m *memory) has(id int) bool {
	return slices.ContainsFunc(m.granted, func(j queue.Job) bool { return j.ID == id })
}

// grant gives host memory to the jobs that have devices, from the front of the line, whoever has it now. One that does not
// fit beside those ahead of it waits for them. Those behind it do not begin before it: they would take what it waits for.
func (d *Daemon) grant(list []queue.Job, a *arrangement) {
	a.most, a.short = math.MaxInt64, map[int]string{}
	if d.host != 0 {
		_, data := hostBytes(d.opened())
		a.most = d.host - max(0, d.owned.Data().Bytes()-data) // equal data can be there twice, after files have changed
	}
	waits := "" // why those behind do not begin
	for _, i := range a.seated {
		id := a.line[i].Number
		j := list[slices.IndexFunc(list, func(j queue.Job) bool { return j.ID == id })]
		begins, why := d.open[id] == nil, waits
		if !begins || why == "" {
			if a.fits(append(a.granted, j)...) {
				a.granted = append(a.granted, j)
				continue
			}
			why = fmt.Sprintf("%s: after %s", needsHost(&j), numbers(idsOf(a.granted)))
			waits = cmp.Or(waits, fmt.Sprintf("after %d, which %s", id, needsHost(&j)))
		}
		if begins {
			a.short[id] = why
		}
	}
}

// makeRoom says whether a job that is to begin has host memory, and finds it free. If others have it that are to have none,
// they are saved and closed, as many as have to be: the one furthest behind in the line first, and those that have
// devices last.
func (d *Daemon) makeRoom(id int, a *arrangement) bool {
	if !a.has(id) {
		return false
	}
	if d.free(id, a) {
		return true
	}
	stay := slices.Clone(a.granted)
	var rest []*task
	for other, t := range d.open {
		switch {
		case a.has(other):
		case t.ending: // it has memory as long as it is open
			stay = append(stay, t.job)
		default:
			rest = append(rest, t)
		}
	}
	if !a.fits(stay...) {
		return false // until those have ended
	}
	slices.SortFunc(rest, func(x, y *task) int { return a.compare(x.job.ID, y.job.ID) })
	for _, t := range rest {
		if stay = append(stay, t.job); a.fits(stay...) {
			continue
		}
		stay = stay[:len(stay)-1]
		t.stop(errRoom)
		d.say(t.job, fmt.Sprintf("is saved and closed: job %d needs the host memory", id))
	}
	return false
}

// free says whether a job has its host memory at once, beside all that are open.
func (d *Daemon) free(id int, a *arrangement) bool {
	list := d.opened()
	for _, j := range a.granted {
		if j.ID == id {
			list = append(list, j)
		}
	}
	return a.fits(list...)
}

// shortage says why a job does not begin that has its devices. It is empty if nothing keeps it.
func (d *Daemon) shortage(j *queue.Job, a *arrangement) string {
	if why := a.short[j.ID]; why != "" || d.free(j.ID, a) {
		return why
	}
	var saving []int
	for id, t := range d.open {
		if t.ending {
			saving = append(saving, id)
		}
	}
	if len(saving) == 0 {
		return ""
	}
	slices.Sort(saving)
	return fmt.Sprintf("%s: after the save of %s", needsHost(j), numbers(saving))
}

// compare puts jobs that have devices before others, and those before jobs that are not in the line.
func (a *arrangement) compare(x, y int) int {
	i, k := a.index(x), a.index(y)
	rank := func(i int) int {
		switch {
		case i < 0:
			return 2
		case a.places[i].Devices == nil:
			return 1
		}
		return 0
	}
	if c := cmp.Compare(rank(i), rank(k)); c != 0 || i < 0 {
		return c
	}
	return order.Compare(&a.line[i], &a.line[k])
}

// opened are the jobs that are open.
func (d *Daemon) opened() (list []queue.Job) {
	for _, t := range d.open {
		list = append(list, t.job)
	}
	return list
}

func idsOf(list []queue.Job) (ids []int) {
	for _, j := range list {
		ids = append(ids, j.ID)
	}
	return ids
}

func needsHost(j *queue.Job) string {
	return fmt.Sprintf("needs %s of host memory", units.Bytes(j.Host+j.Data))
}
