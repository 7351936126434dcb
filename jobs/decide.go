package jobs

import (
	"errors"
	"fmt"
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

// decide asks the order who runs, and acts on it: it suspends, continues and begins. A device is
// given on once the one that has it stands still, so a change can take several calls.
func (d *Daemon) decide() {
	list := d.queue.Jobs()
	if d.sweep(list) {
		list = d.queue.Jobs()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends = nil
	d.heed(list)
	line := d.line(list, time.Now())
	places := order.Arrange(line, d.usable())
	clear(d.places)
	clear(d.short)
	for i, p := range places {
		d.places[line[i].Number] = p
		if t := d.open[line[i].Number]; t != nil {
			t.safe = p.Safe
			d.carry(t, p)
		}
	}
	alone := d.suspect(list)
	if alone != 0 {
		d.clearFor(alone)
	}
	held, full := d.held(), d.queue.Full() != nil
	for i, p := range places {
		j := line[i]
		if p.Devices == nil || taken(held, p.Devices, j.Number) || alone != 0 && others(held, alone) {
			continue
		}
		switch t := d.open[j.Number]; {
		case t != nil:
			t.proceed()
		case full:
		case len(d.short) == 0 && d.room(j.Number, line, places):
			d.begin(j.Number, p)
		default: // later ones would take what it waits for
			d.short[j.Number] = true
			continue
		}
		for _, name := range p.Devices {
			held[name] = j.Number
		}
	}
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
	for _, j := range list {
		if t := d.open[j.ID]; t != nil && j.Wish != queue.Run {
			t.stop(errWished)
		}
	}
}

// line has the jobs that want to run. Suspect ones run alone, so the first of them is all of the
// line then.
func (d *Daemon) line(list []queue.Job, now time.Time) (line []order.Job) {
	off := errorsOf(list)
	alone := d.suspect(list)
	for _, j := range list {
		t := d.open[j.ID]
		switch {
		case !wants(&j), t != nil && t.ending, !d.may(&j), now.Before(d.later[j.ID]), alone != 0 && j.ID != alone:
			continue
		}
		o := order.Job{Number: j.ID, Priority: j.Priority, Age: j.Age(now), Needs: j.Needs}
		o.Length, o.Left = off.times(&j, t)
		if t != nil {
			o.On, o.Running, o.Safe = t.devices, t.runs(), t.safe
		}
		line = append(line, o)
	}
	return line
}

// suspect is the first suspect job that wants to run and can; 0 if there is none. One that cannot
// run, as others wait in RunOnly or there are too few devices, must not keep the rest from it.
func (d *Daemon) suspect(list []queue.Job) int {
	for i := range list {
		j := &list[i]
		begins := d.open[j.ID] != nil || d.queue.Full() == nil // else it would only keep others from going on
		if begins && j.Suspect && wants(j) && d.may(j) && !time.Now().Before(d.later[j.ID]) && order.Fits(j.Needs, d.usable()) {
			return j.ID
		}
	}
	return 0
}

// may says whether the job may be open: RunOnly and Finish keep others from it.
func (d *Daemon) may(j *queue.Job) bool {
	return d.chosen(j) && (!d.drain || d.open[j.ID] != nil)
}

// chosen says whether the job is one that RunOnly runs, or a trial of that.
func (d *Daemon) chosen(j *queue.Job) bool {
	return d.only == 0 || j.ID == d.only || j.Trial != nil && j.Trial.Sweep == d.only
}

// wants says whether the job is for the line. A sweep's place there is that of its trials.
func wants(j *queue.Job) bool {
	return j.Sweep == nil && j.Wish == queue.Run && (j.State == queue.Waiting && !j.Resting() || j.State == queue.Running)
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
	d.open[id] = t
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		t.run()
	}()
}

// alone says whether the job is to run alone, as one that may have ended the process.
func (d *Daemon) alone(id int) bool {
	j, err := d.queue.Job(id)
	return err == nil && j.Suspect
}

func (d *Daemon) say(j queue.Job, what string) {
	name := j.Name
	if t := j.Trial; t != nil {
		name += fmt.Sprintf(", trial %d of sweep %d", t.Number, t.Sweep)
	}
	d.options.Told(fmt.Sprintf("job %d (%s) %s", j.ID, name, what))
}
