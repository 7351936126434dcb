package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// Step is a job of a pipeline that is submitted.
type Step struct {
	Name string
	// Config, Sweep and Length are those of a [Submission], of a step that trains.
	Config []byte   `json:",omitempty"`
	Sweep  string   `json:",omitempty"`
	Length []string `json:",omitempty"`
	// Init names a file of weights, as TrainOptions.Init does, by an absolute path. Skip are
	// patterns of those that begin by rule, also where an input gives the weights.
	Init string   `json:",omitempty"`
	Skip []string `json:",omitempty"`
	// Work is what a step does that trains nothing.
	Work   *queue.Work `json:",omitempty"`
	Inputs []StepInput `json:",omitempty"`
}

// StepInput is another step of the pipeline, and what it gives: one of queue.AsInit and the others.
type StepInput struct{ Step, As string }

// planner finds out what a job takes.
type planner func(context.Context, *configs.Config, *queue.Submission) error

// submitPipeline queues a pipeline and its steps. Steps whose config an input completes are planned once that has
// finished; of these, only the config is checked.
func (d *desk) submitPipeline(ctx context.Context, s Submission, plan planner) (queue.Job, error) {
	if s.Sweep != "" || len(s.Length) > 0 {
		return queue.Job{}, fmt.Errorf("%w: the steps of a pipeline have sweeps and lengths, not the pipeline", berth.ErrOptions)
	}
	q := queue.Submission{Key: s.Key, Name: s.Name, Config: s.Config, Priority: s.Priority, Retries: s.Retries, Pipeline: true}
	if d.queue.Has(s.Key) {
		return d.queue.Again(q)
	}
	steps, err := stepsOf(&s)
	if err != nil {
		return queue.Job{}, err
	}
	var disk int64
	for i := range steps {
		x := &s.Steps[i]
		if err := x.plan(ctx, &steps[i].Submission, plan); err != nil {
			return queue.Job{}, fmt.Errorf("job %s: %w", x.Name, err)
		}
		if x.Work != nil {
			takes(d.queue.Jobs(), nil, &steps[i].Submission)
		}
		q.Length += steps[i].Length
		q.Memory = max(q.Memory, steps[i].Memory)
		for _, n := range steps[i].Needs {
			q.Needs = atLeast(q.Needs, n)
		}
		if of := steps[i].Sweep; of != nil {
			disk += of.Disk
		}
	}
	if err := checkRoom(disk, s.place()); err != nil {
		return queue.Job{}, err
	}
	if err := fits(steps); err != nil {
		return queue.Job{}, err
	}
	return d.queueIn(s, q, func(q queue.Submission) (queue.Job, error) {
		for i := range steps {
			steps[i].Dir = filepath.Join(q.Dir, steps[i].Name)
		}
		for i, x := range steps {
			for _, in := range x.Of {
				if in.As == queue.AsTokenizer {
					steps[i].Unplanned.Set = append(steps[i].Unplanned.Set, in.As+"="+tokenizerFile(steps[in.Step].Dir))
				}
			}
		}
		return d.queue.SubmitPipeline(q, steps)
	})
}

// fits refuses a step that begins with the weights of a model that is not its own, as far as both are planned.
func fits(steps []queue.StepSubmission) error {
	for _, x := range steps {
		for _, in := range x.Of {
			of := &steps[in.Step]
			if in.As != queue.AsInit || x.Shapes == nil || of.Shapes == nil {
				continue
			}
			var wrong []string
			from, err := initial.ParseSource(x.Init)
			if err != nil {
				return fmt.Errorf("job %s: %w", x.Name, err)
			}
			for _, name := range slices.Sorted(maps.Keys(x.Shapes)) {
				if from.Skips(name) {
					continue
				}
				switch has := of.Shapes[name]; has {
				case x.Shapes[name]:
				case "":
					wrong = append(wrong, name+" is missing")
				default:
					wrong = append(wrong, fmt.Sprintf("%s is %s, the model has %s", name, has, x.Shapes[name]))
				}
			}
			if n := len(wrong); n > 0 {
				if n > 3 {
					wrong = append(wrong[:3], fmt.Sprintf("and %d more", n-3))
				}
				return fmt.Errorf("job %s: %w: those of %s do not fit the model: %s", x.Name, initial.ErrInit, of.Name, strings.Join(wrong, "; "))
			}
		}
	}
	return nil
}

// stepsOf are the steps of a submission, with the indices of their inputs.
func stepsOf(s *Submission) (steps []queue.StepSubmission, err error) {
	at := map[string]int{}
	for i, x := range s.Steps {
		if _, twice := at[x.Name]; twice || x.Name == "" || strings.ContainsAny(x.Name, `/\`) || strings.HasPrefix(x.Name, ".") {
			return nil, fmt.Errorf("%w: a step is called %q: each needs a name of its own, which its folder can have", berth.ErrOptions, x.Name)
		}
		if (x.Work == nil) == (x.Config == nil) {
			return nil, fmt.Errorf("%w: step %s has a config or other work: give one of the two", berth.ErrOptions, x.Name)
		}
		at[x.Name] = i
	}
	for i, x := range s.Steps {
		init, err := x.source()
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", x.Name, err)
		}
		q := queue.StepSubmission{Name: x.Name, Submission: queue.Submission{
			Key: s.Key + "/" + x.Name, Name: x.Name, Config: x.Config, Work: x.Work, Init: init, Inputs: after(s.After),
		}}
		for _, in := range x.Inputs {
			of, known := at[in.Step]
			if !known || !slices.Contains([]string{queue.AsInit, queue.AsRun, queue.AsTokenizer}, in.As) {
				return nil, fmt.Errorf("%w: step %s has %q of step %q as an input, and there is no such", berth.ErrOptions, x.Name, in.As, in.Step)
			}
			q.Of = append(q.Of, queue.StepInput{Step: of, As: in.As})
			if in.As == queue.AsTokenizer {
				q.Unplanned = &queue.Unplanned{Set: slices.Clone(s.Steps[i].Length)}
			}
		}
		steps = append(steps, q)
	}
	return steps, acyclic(steps)
}

// source are the weights that a step begins with, as a job has them: without a file where an input gives one.
func (s *Step) source() (string, error) {
	from, err := initial.ParseSource(s.Init)
	from.Skip = append(from.Skip, s.Skip...)
	return from.String(), err
}

// acyclic refuses steps that wait for themselves, through their inputs.
func acyclic(steps []queue.StepSubmission) error {
	ends := make([]bool, len(steps))
	for left := len(steps); left > 0; {
		before := left
		for i, x := range steps {
			if !ends[i] && !slices.ContainsFunc(x.Of, func(in queue.StepInput) bool { return !ends[in.Step] }) {
				ends[i] = true
				left--
			}
		}
		if left == before {
			return fmt.Errorf("%w: step %s waits for itself, through its inputs", berth.ErrOptions, steps[slices.Index(ends, false)].Name)
		}
	}
	return nil
}

// after are the inputs of a job that waits for the end of others.
func after(ids []int) (list []queue.Input) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		list = append(list, queue.Input{Job: id})
	}
	return list
}

// anyDevice is the config of a job that takes one device of any kind.
var anyDevice = &configs.Config{Devices: configs.Devices{Use: "cpu:1"}}

// workLength is how long a job is taken to last that trains nothing: nobody knows before.
const workLength = 5 * time.Second

// plan finds out what a step takes. What an input completes is only checked.
func (x *Step) plan(ctx context.Context, q *queue.Submission, plan planner) error {
	if x.Work != nil {
		return plan(ctx, anyDevice, q)
	}
	set := slices.Clone(x.Length)
	if q.Unplanned != nil {
		set = append(set, queue.AsTokenizer+"="+tokenizerFile(string(filepath.Separator)))
	}
	c, err := configs.Parse(SubmittedConfig, x.Config, configs.Overlay{Set: set})
	if err != nil {
		return err
	}
	if x.Sweep != "" {
		q.Sweep = &queue.Sweep{Text: x.Sweep}
		if q.Unplanned == nil {
			return planSweep(plan, SubmittedConfig)(ctx, c, q)
		}
		if _, err := probes(q, SubmittedConfig, set); err != nil {
			return err
		}
		return plan(ctx, c, q)
	}
	if err := plan(ctx, c, q); err != nil || q.Unplanned != nil || len(x.Length) == 0 {
		return err
	}
	q.Config, err = c.Kept()
	return err
}

// index finds a job in a list by number.
func index(list []queue.Job, id int) *queue.Job {
	i, ok := slices.BinarySearchFunc(list, id, func(j queue.Job, id int) int { return j.ID - id })
	if !ok {
		return nil
	}
	return &list[i]
}

// stuck is the job that keeps another one from beginning, through its inputs, since it has failed or was cancelled; nil:
// there is none.
func stuck(list []queue.Job, j *queue.Job) *queue.Job {
	if !j.Waits() { // as nearly all of a long list
		return nil
	}
	seen := map[int]bool{}
	var behind func(j *queue.Job) *queue.Job
	behind = func(j *queue.Job) *queue.Job {
		if !j.Waits() || j.State.Over() || seen[j.ID] {
			return nil
		}
		seen[j.ID] = true
		for _, in := range j.Inputs {
			of := index(list, in.Job)
			if of == nil || of.State == queue.Finished {
				continue
			}
			if of.State.Over() {
				return of
			}
			if by := behind(of); by != nil {
				return by
			}
		}
		return nil
	}
	return behind(j)
}

// idOf is a job's number; 0: there is no job.
func idOf(j *queue.Job) int {
	if j == nil {
		return 0
	}
	return j.ID
}

// waitsForInputs is why a job waits that has inputs. It is empty once they have finished.
func waitsForInputs(list []queue.Job, j *queue.Job) string {
	if by := stuck(list, j); by != nil {
		if by.State == queue.Cancelled {
			return fmt.Sprintf("%s is cancelled, so this job cannot begin: trainer jobs cancel %d ends it, too", named(by), j.ID)
		}
		return fmt.Sprintf("%s has failed: trainer jobs resume %d lets this job go on", named(by), by.ID)
	}
	var left []string
	for _, in := range j.Inputs {
		of := index(list, in.Job)
		if of == nil || of.State == queue.Finished {
			continue
		}
		if of.State == queue.Paused {
			return fmt.Sprintf("waits for %s, which is paused: trainer jobs resume %d lets it go on", named(of), of.ID)
		}
		left = append(left, named(of))
	}
	if len(left) == 0 {
		return ""
	}
	return "waits for " + strings.Join(left, " and ")
}

// named is a job's number and name.
func named(j *queue.Job) string { return fmt.Sprintf("job %d (%s)", j.ID, j.Name) }

// prepare lets jobs begin whose inputs have finished. The queue may have other jobs than list then.
func (d *Daemon) prepare(list []queue.Job) {
	for i := range list {
		j := &list[i]
		if !j.Waits() {
			continue
		}
		d.mu.Lock()
		ready := d.ready(list, j)
		if ready && j.Unplanned != nil {
			d.planBeside(list, *j)
		}
		d.mu.Unlock()
		if ready && j.Unplanned == nil {
			_, _ = d.queue.Prepare(j.ID, workPlan(list, j)) // if the disk does not take it, the next decision tries again
		}
	}
}

// ready says whether a job waits for nothing but that its inputs are noted to have finished. The caller holds the lock.
func (d *Daemon) ready(list []queue.Job, j *queue.Job) bool {
	unfinished := func(in queue.Input) bool {
		of := index(list, in.Job)
		return of == nil || of.State != queue.Finished
	}
	return j.Waits() && j.Wish == queue.Run && j.State == queue.Waiting && !slices.ContainsFunc(j.Inputs, unfinished) &&
		d.queue.Full() == nil && d.chosen(j) && !d.drain
}

// planned is a job that is planned.
type planned struct {
	job    int
	cancel context.CancelCauseFunc
}

// planBeside plans a job whose inputs have finished, in a goroutine of its own: that may read much data. It plans one job at a
// time, since many at once would have their data in memory together, and while a suspect job is to run alone, no other. That it
// does is on the disk before. The caller holds the lock.
func (d *Daemon) planBeside(list []queue.Job, j queue.Job) {
	if d.planned != nil {
		return
	}
	alone := d.suspect(list)
	if alone != 0 && (alone != j.ID || others(d.held(), j.ID)) {
		return
	}
	if _, err := d.queue.Plan(j.ID, alone != 0 && d.submitting == 0); err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	d.planned = &planned{j.ID, cancel}
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		defer cancel(nil)
		plan, err := d.planLate(ctx, &j)
		if err == nil {
			_, _ = d.queue.Prepare(j.ID, plan) // if the disk does not take it, the next decision plans again
		} else if ctx.Err() == nil {
			d.refuse(&j, err)
		}
		d.queue.Planned(j.ID)
		d.mu.Lock()
		d.planned = nil
		d.mu.Unlock()
		d.tell()
		d.wake()
	}()
}

// planLate plans a job with what its inputs give.
func (d *Daemon) planLate(ctx context.Context, j *queue.Job) (q *queue.Submission, err error) {
	defer func() {
		if p := recover(); p != nil {
			if log, err := openLog(j); err == nil {
				fmt.Fprintf(log, "panic: %v\n%s", p, debug.Stack())
				log.Close()
			}
			err = fmt.Errorf("panic while it was planned: %v: its log says where", p)
		}
	}()
	if err := d.verifyInputs(j); err != nil {
		return nil, err
	}
	text, err := d.queue.Config(j.ID)
	if err != nil {
		return nil, err
	}
	defer func() { err = keyed(err, j, text) }()
	c, err := configs.Parse(configName(j), text, configs.Overlay{Set: j.Unplanned.Set})
	if err != nil {
		return nil, err
	}
	q = &queue.Submission{}
	if j.Sweep != nil {
		q.Sweep = &queue.Sweep{Text: j.Sweep.Text}
		if q.Config, err = c.Kept(); err != nil {
			return nil, err
		}
		if err := planSweep(d.plan, configName(j))(ctx, c, q); err != nil {
			return nil, err
		}
		return q, checkRoom(q.Sweep.Disk, j.Dir)
	}
	if err := d.plan(ctx, c, q); err != nil {
		return nil, err
	}
	q.Config, err = c.Kept() // with the warm-up that the plan gave it
	return q, err
}

// refuse ends a job that cannot begin.
func (d *Daemon) refuse(j *queue.Job, why error) {
	code := 1
	if berth.IsUsage(why) {
		code = 2
	}
	refused, err := d.queue.Refuse(j.ID, why, code)
	if err != nil {
		return
	}
	d.say(refused, fmt.Sprintf("failed: %v", why))
	d.over(refused)
	d.wake()
}

// endPipelines ends pipelines none of whose steps goes on.
func (d *Daemon) endPipelines(list []queue.Job) {
	for i := range list {
		if j := &list[i]; j.Pipeline && leads(*j) && d.leadsHere(j) {
			if over, causes := pipelineOver(list, j.ID); over {
				d.settle(j, causes, pipelineFailed(causes), "all its jobs are finished")
			}
		}
	}
}

// pipelineOver says whether no step of a pipeline goes on, and for which jobs that failed or were cancelled.
func pipelineOver(list []queue.Job, id int) (over bool, causes []*queue.Job) {
	for i := range list {
		j := &list[i]
		if j.StepOf == nil || j.StepOf.Pipeline != id || j.State == queue.Finished {
			continue
		}
		by := j
		if !j.State.Over() {
			if by = stuck(list, j); by == nil {
				return false, nil
			}
		}
		causes = append(causes, by)
	}
	return true, causes
}

// pipelineFailed is why a pipeline has failed: the first of the jobs for which none of its steps goes on. It is nil if
// there are none.
func pipelineFailed(causes []*queue.Job) error {
	switch {
	case len(causes) == 0:
		return nil
	case causes[0].State == queue.Failed:
		return fmt.Errorf("%s failed: %s", named(causes[0]), causes[0].Failure())
	}
	return fmt.Errorf("%s is cancelled", named(causes[0]))
}

// codeOf is the exit code of a job that ends for others: theirs if all failed with the same one, and else 1.
func codeOf(causes []*queue.Job) int {
	code := 0
	for _, j := range causes {
		if j.State != queue.Failed || code != 0 && j.Code() != code {
			return 1
		}
		code = j.Code()
	}
	return cmp.Or(code, 1)
}

// bestOf is the run folder of the best trial of a sweep that has finished.
func (d *Daemon) bestOf(j *queue.Job) (string, error) {
	s, err := parseSweep(j)
	if err != nil {
		return "", err
	}
	jobs := trialsOf(d.queue.Jobs(), j.ID, s.Total())
	w := sweeper{sweep: s}
	w.decide(jobs)
	best := w.decision.Best
	if best == 0 || jobs[best-1] == nil {
		return "", fmt.Errorf("%w: no trial of %s has a finite %s", berth.ErrData, named(j), s.Metric)
	}
	return jobs[best-1].Dir, nil
}

// probes are the configs of a sweep's trials in which each value of each key occurs. name stands for their file in errors.
func probes(q *queue.Submission, name string, set []string) (list []*configs.Config, err error) {
	s, err := configs.ParseSweep("submitted sweep", []byte(q.Sweep.Text))
	if err != nil {
		return nil, err
	}
	for _, settings := range sweep.Probes(s) {
		o := overlay(s, settings)
		o.Set = append(o.Set, set...)
		c, err := configs.Parse(name, q.Config, o)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}
