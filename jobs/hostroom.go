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

// memory says who has host memory, of the jobs that have devices.
type memory struct {
	most    int64          // for all jobs together
	granted []order.Job    // those that have it, from the front of the line
	short   map[int]string // why others do not begin
}

// fits says whether jobs can be open together.
func (m *memory) fits(list ...order.Job) bool { return order.Together(m.most, list...) }

func (m *memory) has(id int) bool {
	return slices.ContainsFunc(m.granted, func(j order.Job) bool { return j.Number == id })
}

// grant gives host memory to the jobs that have devices.
func (d *Daemon) grant(a *arrangement) {
	a.most, a.short = math.MaxInt64, map[int]string{}
	if d.host != 0 {
		_, data := order.HostBytes(d.opened()...)
		a.most = d.host - max(0, d.owned.Data().Bytes()-data) // equal data can be there twice, after files have changed
	}
	var seated []order.Job
	for _, i := range a.seated {
		seated = append(seated, a.line[i])
	}
	g := order.Grant(a.most, seated)
	a.granted = g.Has
	for _, w := range g.Waits {
		if w.For != nil {
			a.short[w.Job.Number] = fmt.Sprintf("after %d, which %s", w.For.Number, needsHost(w.For.Host+w.For.Data))
		} else {
			a.short[w.Job.Number] = fmt.Sprintf("%s: after %s", needsHost(w.Job.Host+w.Job.Data), numbers(idsOf(w.Behind)))
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
			stay = append(stay, hosted(&t.job))
		default:
			rest = append(rest, t)
		}
	}
	if !a.fits(stay...) {
		return false // until those have ended
	}
	slices.SortFunc(rest, func(x, y *task) int { return a.compare(x.job.ID, y.job.ID) })
	var others []order.Job
	for _, t := range rest {
		others = append(others, hosted(&t.job))
	}
	for _, i := range order.Close(a.most, stay, others) {
		rest[i].stop(errRoom)
		d.say(rest[i].job, fmt.Sprintf("is saved and closed: job %d needs the host memory", id))
	}
	return false
}

// free says whether a job has its host memory at once, beside all that are open.
func (d *Daemon) free(id int, a *arrangement) bool {
	list := d.opened()
	for _, j := range a.granted {
		if j.Number == id {
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
	return fmt.Sprintf("%s: after the save of %s", needsHost(j.Host+j.Data), numbers(saving))
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
func (d *Daemon) opened() (list []order.Job) {
	for _, t := range d.open {
		list = append(list, hosted(&t.job))
	}
	return list
}

// hosted is a job with the host memory that it takes, and no more that the order knows.
func hosted(j *queue.Job) order.Job {
	return order.Job{Number: j.ID, Host: j.Host, Data: j.Data, DataID: j.DataID}
}

func idsOf(list []order.Job) (ids []int) {
	for _, j := range list {
		ids = append(ids, j.Number)
	}
	return ids
}

func needsHost(bytes int64) string {
	return fmt.Sprintf("needs %s of host memory", units.Bytes(bytes))
}
