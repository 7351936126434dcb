package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// View is a job as it is now.
type View struct {
	queue.Job
	Where string // the devices of a running job, or why it does not run
	Ends  *time.Time

	// Stuck is the job that keeps this one from beginning, since it has failed or was cancelled; 0: none does.
	Stuck int
}

// foretold is how many ends are foretold: those of the front of the line.
const foretold = 200

// View is one job.
func (d *Daemon) View(id int) (View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.queue.Jobs()
	j := index(list, id)
	if j == nil {
		return View{}, fmt.Errorf("%w: job %d", queue.ErrNoJob, id)
	}
	return d.views(list, []queue.Job{*j})[0], nil
}

// Views are all jobs, by number.
func (d *Daemon) Views() []View {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.queue.Jobs()
	return d.views(list, list)
}

// views are some of all jobs. The caller holds the lock, so that the jobs are those that the tasks are of.
func (d *Daemon) views(list, some []queue.Job) []View {
	now := time.Now()
	a := d.arrange(list, now)
	ends, running := d.foresee(a, now), d.running(list)
	views := make([]View, len(some))
	for i, j := range some {
		v := View{Job: j, Stuck: idOf(stuck(list, &j))}
		if t := d.open[j.ID]; t != nil {
			if t.pace.total > 0 {
				v.Step, v.Steps = t.pace.at, t.pace.total
			}
			v.Loss = cmp.Or(t.loss, v.Loss)
			if length, left := t.pace.times(); length > 0 {
				v.Length, v.Left = length, left
			}
		}
		if end, ok := ends[j.ID]; ok && !j.State.Over() && j.State != queue.Paused {
			v.Ends = &end
		}
		v.Where = d.where(list, &j, a)
		if led := running[j.ID]; len(led) > 0 && !j.State.Over() {
			v.State, v.Where = queue.Running, "jobs "+numbers(led)
		}
		views[i] = v
	}
	return views
}

// foresee says when the jobs at the front of the line end. It is found once for each decision: a command that waits for a
// job asks often, and a long line takes long.
func (d *Daemon) foresee(a *arrangement, now time.Time) map[int]time.Time {
	if d.ends != nil {
		return d.ends
	}
	d.ends = map[int]time.Time{}
	for i, s := range order.Forecast(a.line, d.usable(), a.most, foretold) {
		if s.Ends != order.Never {
			d.ends[a.line[i].Number] = now.Add(s.Ends)
		}
	}
	return d.ends
}

// where says on which devices the job runs, or why it does not. list has all jobs.
func (d *Daemon) where(list []queue.Job, j *queue.Job, a *arrangement) string {
	t := d.open[j.ID]
	full := d.queue.Full()
	inputs := ""
	if j.Waits() {
		inputs = waitsForInputs(list, j)
	}
	switch again := time.Until(d.later[j.ID]); {
	case j.State == queue.Failed:
		return j.Failure()
	case j.State == queue.Finished && j.As != 0:
		return asJob(j)
	case j.State.Over(), j.State == queue.Paused:
		return ""
	case t != nil && t.ending:
		return "saving"
	case t != nil && !t.stands(): // it may be about to stand still
		return strings.Join(t.devices, ", ")
	case !d.chosen(j):
		return WaitsForDaemon
	case j.Resting():
		return waitsForTrials(j)
	case inputs != "":
		return inputs
	case again > 0:
		return fmt.Sprintf("begins again in %d s: %s", int(again.Seconds())+1, j.Failure())
	case a.alone != 0 && a.alone != j.ID && !j.Leads():
		if of := index(list, a.alone); of != nil && of.Waits() {
			return fmt.Sprintf("after job %d is planned: it was when the process ended, and is alone until then", a.alone)
		}
		return fmt.Sprintf("after job %d has saved: it ran when the process ended, and runs alone until then", a.alone)
	case t != nil:
		return cmp.Or(reason(j.Needs, a.place(j.ID)), "about to go on")
	case !d.may(j):
		return "the daemon begins no more jobs"
	case full != nil:
		return fmt.Sprintf("nothing begins while the queue cannot be written: %v", full)
	case j.Waits() && j.Unplanned != nil && d.planned != nil && d.planned.job != j.ID:
		return fmt.Sprintf("its inputs are there: it is planned after job %d", d.planned.job)
	case j.Waits() && j.Unplanned != nil:
		return "its inputs are there: it is planned"
	case j.Waits():
		return AboutToBegin
	case d.kept[j.ID] != "":
		return d.kept[j.ID]
	case j.Leads():
		return d.waitsForLed(list, j, a)
	}
	return cmp.Or(reason(j.Needs, a.place(j.ID)), d.shortage(j, a), AboutToBegin)
}

// asJob is why a job is finished that nothing was trained for.
func asJob(j *queue.Job) string { return fmt.Sprintf("as job %d", j.As) }

// waitsForLed is why none runs of the jobs that a job leads: why the first one does not that waits for none of the others.
func (d *Daemon) waitsForLed(list []queue.Job, j *queue.Job, a *arrangement) string {
	led := func(id int) bool {
		of := index(list, id)
		return of != nil && of.Lead() == j.ID && !of.State.Over()
	}
	for i := range list {
		of := &list[i]
		if !led(of.ID) || of.Waits() && slices.ContainsFunc(of.Inputs, func(in queue.Input) bool { return led(in.Job) }) {
			continue
		}
		switch {
		case of.State == queue.Paused:
			return named(of) + " is paused"
		case of.Resting():
		case of.Leads() && !of.Waits():
			return d.where(list, of, a)
		default:
			return named(of) + ": " + d.where(list, of, a)
		}
	}
	return AboutToBegin
}

// running has the jobs that run now, or lead some that do, by those that lead them.
func (d *Daemon) running(list []queue.Job) map[int][]int {
	led := map[int][]int{}
	for _, id := range slices.Sorted(maps.Keys(d.open)) {
		if d.open[id].stands() {
			continue
		}
		for j := index(list, id); j != nil && j.Lead() != 0; j = index(list, j.Lead()) {
			if lead := j.Lead(); !slices.Contains(led[lead], j.ID) {
				led[lead] = append(led[lead], j.ID)
			}
		}
	}
	return led
}

// waitsForTrials is why a trial waits that has reached its rung.
func waitsForTrials(j *queue.Job) string {
	return fmt.Sprintf("waits for the other trials at step %d", j.Trial.Step)
}

// AboutToBegin is why a job does not run that gets its devices soon, or that the daemon has not decided about yet.
const AboutToBegin = "about to begin"

// reason words why a job has no devices. It is empty if it has some.
func reason(needs []order.Need, p order.Place) string {
	var text []string
	for _, n := range needs {
		text = append(text, fmt.Sprintf("%d %s", n.Count, n.Kind))
	}
	wanted := strings.Join(text, " and ")
	switch {
	case p.Lacks.Count > 0:
		return fmt.Sprintf("needs %s: there are fewer", wanted)
	case len(p.Behind) > 0:
		return fmt.Sprintf("needs %s: after %s", wanted, numbers(p.Behind))
	}
	return ""
}

// numbers lists jobs: "6, 8 and 31 more".
func numbers(ids []int) string {
	const most = 3
	var text []string
	for _, id := range ids[:min(len(ids), most)] {
		text = append(text, fmt.Sprint(id))
	}
	if len(ids) > most {
		return strings.Join(text, ", ") + fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return units.List(text)
}

// Want changes what is wanted of a job: to run, to pause, or to be cancelled.
func (d *Daemon) Want(id int, w queue.Wish) (queue.Job, error) {
	defer d.wake()
	if w == queue.Run {
		d.mu.Lock()
		delete(d.later, id)
		d.mu.Unlock()
	}
	list, err := d.queue.Want(id, w)
	if err != nil {
		return queue.Job{}, err
	}
	var over []queue.Job
	for _, j := range list {
		if j.State.Over() { // it was not open: an open one ends later
			d.say(j, string(j.State))
			over = append(over, j)
		}
	}
	d.tell()
	d.over(over...)
	return list[0], nil
}

// SetPriority changes a job's place in the line.
func (d *Daemon) SetPriority(id, priority int) (queue.Job, error) {
	defer d.wake()
	return d.queue.SetPriority(id, priority)
}

// Remove forgets a job that is not open. Its run folder stays.
func (d *desk) Remove(id int) error { return d.queue.Remove(id) }

// Config is the config of a job.
func (d *desk) Config(id int) ([]byte, error) { return d.queue.Config(id) }

// Full is why the disk takes no more of the queue: requests are refused, and nothing begins. It is nil
// if the disk does.
func (d *desk) Full() error { return d.queue.Full() }
