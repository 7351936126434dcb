package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// sweeper is what a daemon remembers of a sweep from decision to decision, so that it decides anew only where a
// trial has changed. All that counts is in the queue.
type sweeper struct {
	text     string // of the sweep
	sweep    *configs.Sweep
	trials   []sweep.Trial
	decision sweep.Decision
	deleted  map[int]bool // trials whose checkpoints are deleted, or stay for good
}

// sweep lets the trials of sweeps begin, go on and end. The queue may have other jobs than list then.
func (d *Daemon) sweep(list []queue.Job) {
	for i := range list {
		j := &list[i]
		if j.Sweep == nil || !leads(*j) || j.Waits() || !d.leadsHere(j) {
			continue
		}
		w := d.sweeps[j.ID]
		if w == nil || w.text != j.Sweep.Text { // trials were added
			s, err := parseSweep(j)
			if err != nil {
				d.settle(j, nil, err, "")
				continue
			}
			w = &sweeper{text: j.Sweep.Text, sweep: s, deleted: map[int]bool{}}
			d.sweeps[j.ID] = w
		}
		jobs := trialsOf(list, j.ID, w.sweep.Total())
		w.decide(jobs)
		d.lead(j, w, jobs, list)
	}
}

// leads says whether a job that somebody wants to run leads others, or waits for some.
func leads(j queue.Job) bool {
	return (j.Leads() || j.Waits()) && j.Wish == queue.Run && !j.State.Over()
}

// leadsHere says whether this daemon runs what a job leads, so that it ends that job, too.
func (d *Daemon) leadsHere(j *queue.Job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chosen(j)
}

// mayLead says whether what a job leads may begin.
func (d *Daemon) mayLead(j *queue.Job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.chosen(j) && !d.drain
}

func parseSweep(j *queue.Job) (*configs.Sweep, error) {
	return configs.ParseSweep(fmt.Sprintf("sweep of job %d", j.ID), []byte(j.Sweep.Text))
}

// trialsOf has the jobs of a sweep's trials, that of trial i at i-1; nil: it has not begun.
func trialsOf(list []queue.Job, id, total int) []*queue.Job {
	trials := make([]*queue.Job, total)
	for i := range list {
		if t := list[i].Trial; t != nil && t.Sweep == id && t.Number <= total {
			trials[t.Number-1] = &list[i]
		}
	}
	return trials
}

// decide decides anew if a trial has changed.
func (w *sweeper) decide(jobs []*queue.Job) {
	trials := make([]sweep.Trial, len(jobs))
	for i, j := range jobs {
		if j != nil {
			trials[i] = trialOf(j)
		}
	}
	if w.trials == nil || !reflect.DeepEqual(trials, w.trials) {
		w.trials, w.decision = trials, sweep.Decide(w.sweep, trials)
	}
}

// trialOf is what a job says of its trial.
func trialOf(j *queue.Job) sweep.Trial {
	t := sweep.Trial{Ended: j.Trial.Ended, Running: wants(j)}
	for _, s := range j.Trial.Settings {
		t.Settings = append(t.Settings, configs.Setting(s))
	}
	for _, v := range j.Trial.Values {
		if v == nil {
			t.Values = append(t.Values, math.Inf(1)) // as any value that is not finite; NaN is not equal to itself
		} else {
			t.Values = append(t.Values, *v)
		}
	}
	switch j.State {
	case queue.Failed:
		t.Err = errors.New(j.Failure())
	case queue.Cancelled:
		t.Err = errors.New("it was cancelled")
	}
	return t
}

// lead does what a decision says. What the disk does not take, the next decision tries again.
func (d *Daemon) lead(j *queue.Job, w *sweeper, jobs []*queue.Job, list []queue.Job) {
	var out []int
	for n, t := range jobs {
		switch {
		case t == nil:
		case w.decision.Over && wants(t):
			_, _ = d.queue.Want(t.ID, queue.Pause)
		case w.decision.States[n] == sweep.Out && !t.State.Over():
			out = append(out, t.ID)
		}
	}
	if dropped, err := d.queue.Drop(out...); err == nil {
		before := 0
		for _, t := range dropped {
			if t.As != 0 { // they may be hundreds at once
				before++
				continue
			}
			d.say(t, "is out: others are better")
		}
		if before > 0 {
			d.say(*j, fmt.Sprintf("trials that are out, and were trained before: %d", before))
		}
		d.over(dropped...)
	}
	kept := ""
	for _, n := range w.decision.Delete {
		if t := jobs[n-1]; t != nil && !t.Open() && !w.deleted[n] && t.As == 0 && !sharedRun(list, t) {
			if err := d.deleteCheckpoints(t); err != nil {
				kept = cmp.Or(kept, fmt.Sprintf("the checkpoints of trial %d cannot be deleted, which is tried again: %v", n, err))
				continue
			}
			w.deleted[n] = true
		}
	}
	d.keeps(j, kept)
	if w.decision.Over {
		if kept == "" && !slices.ContainsFunc(jobs, func(t *queue.Job) bool { return t != nil && t.Open() }) {
			best := w.decision.Best
			if w.decision.Err == nil && j.StepOf != nil && jobs[best-1].As != 0 && !jobs[best-1].Trial.Gives {
				if _, err := d.queue.Give(jobs[best-1].ID, trialDir(j, best)); err == nil {
					d.wake()
				}
				return
			}
			failed := slices.DeleteFunc(slices.Clone(jobs), func(t *queue.Job) bool { return t == nil || t.State != queue.Failed })
			d.settle(j, failed, w.decision.Err, fmt.Sprintf("trial %d is the best", best))
		}
		return
	}
	if d.mayLead(j) {
		d.let(j, w, jobs, list)
	}
}

// sharedRun says whether a job's run is that of another job, too, which was finished as this one.
func sharedRun(list []queue.Job, t *queue.Job) bool {
	return slices.ContainsFunc(list, func(j queue.Job) bool { return j.As != 0 && j.Dir == t.Dir && complete(&j) })
}

// deleteCheckpoints deletes those of a trial that does not go on. Its config, metrics and report stay. An error says that there was
// no room for that, which some file systems need; those that stay for another reason stay for good.
func (d *Daemon) deleteCheckpoints(t *queue.Job) error {
	err := os.Remove(rundir.CheckpointPath(t.Dir))
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case slices.ContainsFunc(osfile.NoRoom, func(e syscall.Errno) bool { return errors.Is(err, e) }):
		return err
	}
	d.say(*t, fmt.Sprintf("keeps its checkpoints: %v", err))
	return nil
}

// keeps notes why a sweep has checkpoints that are to be deleted, and says it once; "": it has none.
func (d *Daemon) keeps(j *queue.Job, why string) {
	d.mu.Lock()
	said := d.kept[j.ID] != ""
	if why == "" {
		delete(d.kept, j.ID)
	} else {
		d.kept[j.ID] = why
	}
	d.mu.Unlock()
	if why != "" && !said {
		d.say(*j, why)
	}
}

// settle ends a sweep or a pipeline.
func (d *Daemon) settle(j *queue.Job, causes []*queue.Job, failed error, what string) {
	ids := make([]int, len(causes))
	for i, by := range causes {
		ids[i] = by.ID
	}
	ended, err := d.queue.Settle(j.ID, ids, failed, codeOf(causes), what)
	if err != nil {
		return
	}
	delete(d.sweeps, j.ID)
	if failed != nil {
		what = fmt.Sprintf("failed: %v", failed)
		if of, ok := errors.AsType[*sweep.TrialsError](failed); ok { // the trials have said why
			what = "failed: " + of.What
		}
	}
	d.say(ended, what)
	d.over(ended)
}

// bestKey is the key of a config that says which metric its checkpoints are chosen by. Of a trial it is that of
// the sweep, which so comes out at each boundary.
const bestKey = "checkpoint.best"

// overlay is what a trial has in place of the config's values.
func overlay(s *configs.Sweep, settings []configs.Setting) (o configs.Overlay) {
	o.Set = append(o.Set, bestKey+"="+s.Metric)
	for _, x := range settings {
		o.Set = append(o.Set, x.Key+"="+x.Value)
	}
	return o
}

// trial is a trial that is trained; nil: the job is none.
type trial struct {
	of    queue.Job // the sweep
	sweep *configs.Sweep
	rung  int
	gives bool // it is to have the weights, too, not only the values
}

// trial is the trial that a job is, and its overlay.
func (d *Daemon) trial(j *queue.Job) (*trial, configs.Overlay, error) {
	if j.Trial == nil {
		return nil, configs.Overlay{}, nil
	}
	of, err := d.queue.Job(j.Trial.Sweep)
	if err != nil {
		return nil, configs.Overlay{}, fmt.Errorf("the sweep of the trial: %w", err)
	}
	s, err := parseSweep(&of)
	if err != nil {
		return nil, configs.Overlay{}, err
	}
	var settings []configs.Setting
	for _, x := range j.Trial.Settings {
		settings = append(settings, configs.Setting(x))
	}
	return &trial{of: of, sweep: s, rung: j.Trial.Rung, gives: j.Trial.Gives}, overlay(s, settings), nil
}

// step is the step up to which it trains; 0: to its end.
func (t *trial) step(run *berth.Run) int {
	if t == nil {
		return 0
	}
	return t.stepOf(run.TotalSteps(), boundaryOf(run))
}

// stepOf is step for a run of so many steps, with so many between its boundaries.
func (t *trial) stepOf(steps, boundary int) int { return sweep.Rungs(t.sweep, steps, boundary)[t.rung] }

// reached is what it has reached.
func (t *trial) reached(run *berth.Run, r *berth.Report) *queue.Reached {
	if t == nil {
		return nil
	}
	var value *float64
	switch t.sweep.Metric {
	case "val_loss":
		value = r.Final.ValLoss
	case "val_accuracy":
		value = r.Final.ValAccuracy
	default:
		if v, ok := r.Final.Metrics[configs.MetricOf(t.sweep.Metric)]; ok {
			value = &v
		}
	}
	if value != nil && (math.IsNaN(*value) || math.IsInf(*value, 0)) {
		value = nil
	}
	return &queue.Reached{Value: value, Step: r.Steps, Steps: run.TotalSteps(), Boundary: boundaryOf(run)}
}

// boundaryOf is the number of steps from boundary to boundary.
func boundaryOf(run *berth.Run) int { return cmp.Or(run.Config.Train.Boundary, run.StepsPerEpoch()) }

// planSweep plans a sweep: settings in which each value of each key occurs. It takes the most that one of them takes.
// One that cannot be trained is no reason to refuse the others, but a mistake in a config is. name stands for its file in errors.
func planSweep(plan planner, name string) planner {
	return func(ctx context.Context, _ *configs.Config, q *queue.Submission) error {
		s, err := configs.ParseSweep("submitted sweep", []byte(q.Sweep.Text))
		if err != nil {
			return err
		}
		list, err := probes(q, name, nil)
		if err != nil {
			return err
		}
		var failures []error
		planned := map[string]bool{} // by the config without its seed
		for _, c := range list {
			same := *c
			same.Seed = 0
			text, err := same.YAML()
			if err != nil {
				return err
			}
			if planned[string(text)] {
				continue
			}
			planned[string(text)] = true
			p := queue.Submission{Sweep: &queue.Sweep{}}
			if err := plan(ctx, c, &p); err != nil {
				failures = append(failures, err)
				continue
			}
			most(q, &p)
		}
		if q.Sweep.Steps == 0 {
			return failures[0]
		}
		outlook(q, s)
		return nil
	}
}

// most takes in what a trial takes.
func most(q, p *queue.Submission) {
	q.Memory, q.Host, q.Data = max(q.Memory, p.Memory), max(q.Host, p.Host), max(q.Data, p.Data)
	q.DataID = p.DataID
	if q.Needs == nil {
		q.Needs, q.Numerics, q.Shapes = p.Needs, p.Numerics, p.Shapes
	}
	if !maps.Equal(q.Shapes, p.Shapes) { // the best one may be of any shape
		q.Shapes = nil
	}
	of := q.Sweep
	if p.Sweep.Steps > of.Steps {
		of.Steps, of.Boundary = p.Sweep.Steps, p.Sweep.Boundary
	}
	of.Each = max(of.Each, p.Sweep.Each)
	of.AtOnce = max(of.AtOnce, p.Sweep.AtOnce)
	of.Checkpoints, of.Files = max(of.Checkpoints, p.Sweep.Checkpoints), max(of.Files, p.Sweep.Files)
}

// differs says whether trials have different data.
func differs(s *configs.Sweep) bool {
	return slices.ContainsFunc(s.Vary, func(d configs.Dimension) bool {
		return d.Key == "seed" || d.Key == "data" || strings.HasPrefix(d.Key, "data.")
	})
}

// Standing is how a sweep stands.
type Standing struct {
	Sweep    *configs.Sweep
	Trials   []*View // trial i is Trials[i-1]; nil: it has not begun
	Decision sweep.Decision
}

// StandingOf finds out how a sweep stands, from the views of all jobs.
func StandingOf(views []View, id int) (*Standing, error) {
	i := slices.IndexFunc(views, func(v View) bool { return v.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: job %d", queue.ErrNoJob, id)
	}
	if views[i].Sweep == nil {
		return nil, fmt.Errorf("%w: job %d is no sweep: trainer jobs show %d shows it", berth.ErrOptions, id, id)
	}
	s, err := parseSweep(&views[i].Job)
	if err != nil {
		return nil, err
	}
	st := &Standing{Sweep: s, Trials: make([]*View, s.Total())}
	trials := make([]sweep.Trial, s.Total())
	for i := range views {
		v := &views[i]
		if t := v.Trial; t != nil && t.Sweep == id && t.Number <= len(trials) {
			st.Trials[t.Number-1], trials[t.Number-1] = v, trialOf(&v.Job)
		}
	}
	st.Decision = sweep.Decide(s, trials)
	return st, nil
}

// Value is the newest value of a trial's metric; nil: it has none, or one that is not finite.
func (st *Standing) Value(i int) *float64 {
	if v := st.Trials[i]; v != nil && len(v.Trial.Values) > 0 {
		return v.Trial.Values[len(v.Trial.Values)-1]
	}
	return nil
}

// Order has the indices of the trials that have begun, the best first: by the rungs that they have reached, then by value, then by
// number.
func (st *Standing) Order() (order []int) {
	for i, v := range st.Trials {
		if v != nil {
			order = append(order, i)
		}
	}
	lower := configs.LowerIsBetter(st.Sweep.Metric)
	rungs := func(i int) int { return len(st.Trials[i].Trial.Values) }
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := st.Value(a), st.Value(b)
		switch {
		case x == nil || y == nil:
			return cmp.Compare(missing(x), missing(y))
		case lower:
			return cmp.Or(cmp.Compare(rungs(b), rungs(a)), cmp.Compare(*x, *y))
		}
		return cmp.Or(cmp.Compare(rungs(b), rungs(a)), cmp.Compare(*y, *x))
	})
	return order
}

// missing puts what is missing last.
func missing(x *float64) int {
	if x == nil {
		return 1
	}
	return 0
}
