package jobs

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// errWished is why a task ends that somebody wants paused or cancelled, and errMoved why one
// ends that goes on elsewhere. The job's state follows from its wish.
var (
	errWished = errors.New("it is to stop")
	errMoved  = errors.New("it goes on with other devices")
)

// decide lets the trials of sweeps begin and go on, and then all jobs by the order.
func (d *Daemon) decide() {
	d.mu.Lock()
	list := d.queue.Jobs()
	if slices.ContainsFunc(list, leads) {
		d.mu.Unlock() // this writes to the disk a lot
		for _, act := range []func([]queue.Job){d.prepare, d.sweep, d.endPipelines} {
			act(list)
			list = d.queue.Jobs()
		}
		d.mu.Lock()
		list = d.queue.Jobs()
	}
	d.act(list)
	d.mu.Unlock()
	d.tell()
}

// act asks the order who runs, and acts on it: it suspends, continues and begins. A device is
// given on once the one that has it stands still, so a change can take several calls.
func (d *Daemon) act(list []queue.Job) {
	d.ends = nil
	d.heed(list)
	a := d.arrange(list, time.Now())
	for i, p := range a.places {
		if t := d.open[a.line[i].Number]; t != nil {
			t.safe = p.Safe
			d.carry(t, p)
		}
	}
	if a.alone != 0 {
		d.clearFor(a.alone)
	}
	held, full := d.held(), d.queue.Full() != nil
	for _, i := range a.seated {
		id, p := a.line[i].Number, a.places[i]
		t := d.open[id]
		switch {
		case t != nil && t.ending:
			continue
		case t == nil && (full || !d.makeRoom(id, a)):
			continue
		case taken(held, p.Devices, id) || a.alone != 0 && (others(held, a.alone) || d.planned != nil):
			continue
		case t != nil:
			t.proceed()
		default:
			d.begin(id, p)
		}
		for _, name := range p.Devices {
			held[name] = id
		}
	}
}

// arrangement says who is to run, as the jobs, the devices and host memory are now.
type arrangement struct {
	alone  int           // the job that is to run alone; 0: there is none
	line   []order.Job   // those that want to run, by number
	places []order.Place // of each of line
	seated []int         // those of line that have devices, from the front
	memory               // and which of these have host memory
}

// arrange changes nothing, so that what it says can be told, too.
func (d *Daemon) arrange(list []queue.Job, now time.Time) *arrangement {
	a := &arrangement{alone: d.suspect(list)}
	a.line = d.line(list, a.alone, now)
	a.places = order.Arrange(a.line, d.usable())
	for i, p := range a.places {
		if p.Devices != nil {
			a.seated = append(a.seated, i)
		}
	}
	slices.SortFunc(a.seated, func(i, k int) int { return order.Compare(&a.line[i], &a.line[k]) })
	d.grant(a)
	return a
}

// index is where a job is in line, and -1 if it is not there.
func (a *arrangement) index(id int) int {
	i, ok := slices.BinarySearchFunc(a.line, id, func(j order.Job, id int) int { return cmp.Compare(j.Number, id) })
	if !ok {
		return -1
	}
	return i
}

// place is what a job gets: nothing if it is not in line.
func (a *arrangement) place(id int) (p order.Place) {
	if i := a.index(id); i >= 0 {
		p = a.places[i]
	}
	return p
}

// clearFor suspends all jobs but the one that is to run alone.
func (d *Daemon) clearFor(alone int) {
	for id, t := range d.open {
		if id != alone && !t.ending {
			t.suspend()
		}
	}
}

// taken says whether another job has one of the devices; others, whether another job has any.
func taken(held map[string]int, devices []string, id int) bool {
	return slices.ContainsFunc(devices, func(name string) bool { return held[name] != 0 && held[name] != id })
}

func others(held map[string]int, id int) bool {
	for _, other := range held {
		if other != id {
			return true
		}
	}
	return false
}

// heed ends the tasks of jobs that somebody wants paused or cancelled.
func (d *Daemon) heed(list []queue.Job) {
	for i := range list {
		if j := &list[i]; j.Wish != queue.Run && d.open[j.ID] != nil {
			d.open[j.ID].stop(errWished)
		}
	}
}

// line has the jobs that want to run. Suspect ones run alone, so the first of them is all of the
// line then.
func (d *Daemon) line(list []queue.Job, alone int, now time.Time) (line []order.Job) {
	off := errorsOf(list, d.open)
	line = make([]order.Job, 0, len(list))
	for i := range list {
		j := &list[i]
		t := d.open[j.ID]
		switch {
		case !wants(j), t != nil && t.ending, !d.may(j), now.Before(d.later[j.ID]), alone != 0 && j.ID != alone:
			continue
		}
		o := hosted(j)
		o.Priority, o.Age, o.Needs, o.Open = j.Priority, j.Age(now), j.Needs, t != nil
		o.Length, o.Left = off.times(j, t)
		if t != nil {
			o.On, o.Running, o.Safe = t.devices, t.runs(), t.safe
		}
		line = append(line, o)
	}
	return line
}

// suspect is the first suspect job that wants to run, or to be planned, and can; 0 if there is none. One that cannot
// run, as others wait in RunOnly or there are too few devices, must not keep the rest from it.
func (d *Daemon) suspect(list []queue.Job) int {
	for i := range list {
		j := &list[i]
		if !j.Suspect || d.open[j.ID] == nil && d.queue.Full() != nil { // it would only keep others from going on
			continue
		}
		runs := wants(j) && d.may(j) && !time.Now().Before(d.later[j.ID]) && order.Fits(j.Needs, d.usable())
		if runs || j.Unplanned != nil && d.ready(list, j) {
			return j.ID
		}
	}
	return 0
}

// may says whether the job may be open: RunOnly and Finish keep others from it.
func (d *Daemon) may(j *queue.Job) bool {
	return d.chosen(j) && (!d.drain || d.begun[j.ID])
}

// chosen says whether the job is one that RunOnly runs, or is led by that.
func (d *Daemon) chosen(j *queue.Job) bool {
	return d.only == 0 || d.queue.LedBy(j, d.only)
}

// wants says whether the job is for the line. The place there of a job that leads others is theirs.
func wants(j *queue.Job) bool {
	return !j.Leads() && !j.Waits() && j.Wish == queue.Run && (j.State == queue.Waiting && !j.Resting() || j.State == queue.Running)
}

// usable lists the devices that are not lost.
func (d *Daemon) usable() (list []order.Device) {
	for _, id := range d.owned.Usable() {
		kind, _, _ := strings.Cut(string(id), ":")
		list = append(list, order.Device{Name: string(id), Kind: kind})
	}
	return list
}

// carry tells an open task what its place asks of it.
func (d *Daemon) carry(t *task, p order.Place) {
	switch {
	case p.Devices == nil:
		t.suspend()
	case !slices.Equal(p.Devices, t.devices):
		t.stop(errMoved)
	}
}

// held says which job has which device now. A suspended one has none, but its tensors may be there.
func (d *Daemon) held() map[string]int {
	held := map[string]int{}
	for id, t := range d.open {
		if t.stands() {
			continue
		}
		for _, name := range t.devices {
			held[name] = id
		}
	}
	return held
}

// begin notes an attempt in the queue and starts its task. Without room on the disk, nothing begins.
func (d *Daemon) begin(id int, p order.Place) {
	j, err := d.queue.Begin(id, p.Devices, d.alone(id))
	if err != nil {
		return
	}
	d.say(j, "begins on "+strings.Join(p.Devices, ", "))
	t := newTask(d, j, p.Devices)
	d.open[id], d.begun[id] = t, true
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		t.run()
	}()
}

// alone says whether the job is to run alone, as one that may have ended the process, and does: nothing is planned meanwhile.
func (d *Daemon) alone(id int) bool {
	j, err := d.queue.Job(id)
	return err == nil && j.Suspect && d.submitting == 0
}
