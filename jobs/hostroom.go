package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// errRoom is why a suspended task ends whose host memory another job needs. It goes on later from where
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

// room says whether host memory has room for a job beside those that are open. If it has not, jobs that are
// to stand aside are saved and closed where that makes room: those furthest behind in the line first. A job
// that finds no other open begins, whatever it takes.
func (d *Daemon) room(id int, line []order.Job, places []order.Place) bool {
	j, err := d.queue.Job(id)
	if err != nil || d.host == 0 || len(d.open) == 0 {
		return true
	}
	var open, stay []queue.Job
	var aside []*task // from the front of the line
	at := func(id int) int {
		return slices.IndexFunc(line, func(o order.Job) bool { return o.Number == id })
	}
	for id, t := range d.open {
		open = append(open, t.job)
		switch i := at(id); {
		case t.ending: // it has memory as long as it is open
		case i >= 0 && places[i].Devices != nil:
			stay = append(stay, t.job)
		default:
			aside = append(aside, t)
		}
	}
	slices.SortFunc(aside, func(a, b *task) int {
		return cmp.Compare(uint(at(a.job.ID)), uint(at(b.job.ID))) // -1 is the largest: it is not in the line
	})
	_, data := hostBytes(open)
	most := d.host - max(0, d.owned.Data().Bytes()-data) // equal data can be there twice, after files have changed
	fits := func(list []queue.Job) bool {
		all, _ := hostBytes(append(list, j))
		return all <= most
	}
	if fits(open) {
		return true
	}
	if len(stay) > 0 && !fits(stay) {
		return false // closing would not make enough room
	}
	for _, t := range aside {
		if stay = append(stay, t.job); fits(stay) {
			continue
		}
		stay = stay[:len(stay)-1]
		t.stop(errRoom)
		d.say(t.job, fmt.Sprintf("is saved and closed: job %d needs the host memory", j.ID))
	}
	return false
}

// shortage says why a job does not begin that has its devices.
func shortage(j *queue.Job) string {
	return fmt.Sprintf("needs %s of host memory: after others are saved or have ended", units.Bytes(j.Host+j.Data))
}
