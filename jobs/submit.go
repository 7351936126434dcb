package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// SubmittedConfig stands in errors for the file of Submission.Config: "submitted config:7" is its line 7.
const SubmittedConfig = "submitted config"

// Submission asks for a job.
type Submission struct {
	// Key tells this submission from others: one that was not answered is sent again with the
	// same key, and makes no second job.
	Key string
	// Config is YAML that means the same from any working folder: see [configs.Config.Kept].
	Config []byte
	// Sweep makes the job a sweep of trainings of Config: it is its text, as [configs.Sweep.YAML] writes it. Empty: the job
	// is one training.
	Sweep string
	// Steps make the job a pipeline of them: Config is then the text as which it was written, and Name names it.
	Steps []Step `json:",omitempty"`
	Name  string `json:",omitempty"`
	// After are jobs that have to finish before it begins.
	After []int `json:",omitempty"`
	// Length is what is set in place of the length that Config gives, as --set does: "train.steps=9".
	// A warm-up that was meant for Config's length then becomes shorter in proportion. See
	// [configs.Config.Shortened]. One that is among it, as "schedule.warmup=4", stays.
	Length []string
	// Dir is the run folder, an absolute path. If it is empty, the job gets the first of
	// Parent/NAME, Parent/NAME-2, … that is not there.
	Dir, Parent string
	Priority    int
	Retries     int
	// Again trains though a finished job has the same weights.
	Again bool
}

// place is a folder on the disk of the run folder.
func (s *Submission) place() string { return cmp.Or(cleaned(s.Dir), cleaned(s.Parent)) }

// Submit plans a config and queues it. A job whose weights, metrics and checkpoints a finished one has is finished at once: its
// folder is that of the other one, which queue.Job.As names. A config that can never be trained on the
// daemon's devices is refused with the words of its plan. The job is on the disk when
// Submit returns.
func (d *Daemon) Submit(ctx context.Context, s Submission) (queue.Job, error) {
	defer d.wake()
	d.mu.Lock()
	only := d.only
	d.submitting++
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.submitting--
		d.mu.Unlock()
	}()
	if err := d.queue.Beside(); err != nil {
		return queue.Job{}, fmt.Errorf("nothing is queued: %w", err)
	}
	if only != 0 { // the job is for another daemon, with other devices
		return d.desk.submit(ctx, s, planApart)
	}
	known := d.queue.Has(s.Key)
	j, err := d.desk.submit(ctx, s, d.plan)
	if err == nil && j.As != 0 && !known {
		d.say(j, fmt.Sprintf("%s, as job %d in %s", j.State, j.As, j.Dir))
		d.over(j)
	}
	return j, err
}

// desk takes submissions for a queue.
type desk struct {
	queue   *queue.Queue
	program string     // see Options.Program
	folders sync.Mutex // held while a folder is chosen and queued
}

// submit queues what plan says of a config.
func (d *desk) submit(ctx context.Context, s Submission, plan planner) (queue.Job, error) {
	if s.Key == "" {
		return queue.Job{}, fmt.Errorf("%w: the submission has no key", berth.ErrOptions)
	}
	if s.Retries < 0 {
		return queue.Job{}, fmt.Errorf("%w: a job cannot begin again %d times: give 0 or more retries", berth.ErrOptions, s.Retries)
	}
	if len(s.Steps) > 0 {
		return d.submitPipeline(ctx, s, plan)
	}
	if s.Sweep != "" && len(s.Length) > 0 {
		return queue.Job{}, fmt.Errorf("%w: a sweep has the length of its config: give it there", berth.ErrOptions)
	}
	c, err := configs.Parse(SubmittedConfig, s.Config, configs.Overlay{Set: s.Length})
	if err != nil {
		return queue.Job{}, err
	}
	q := queue.Submission{Key: s.Key, Name: c.Name, Config: s.Config, Priority: s.Priority, Retries: s.Retries, Again: s.Again, Inputs: after(s.After)}
	if s.Sweep != "" {
		q.Sweep = &queue.Sweep{Text: s.Sweep}
		plan = planSweep(plan, SubmittedConfig)
	}
	if d.queue.Has(s.Key) && len(s.Length) == 0 { // otherwise the plan says what was kept
		return d.queue.Again(q)
	}
	if err := plan(ctx, c, &q); err != nil {
		return queue.Job{}, err
	}
	if len(s.Length) > 0 {
		if q.Config, err = c.Kept(); err != nil {
			return queue.Job{}, err
		}
	}
	if s.Sweep == "" { // its trials have recipes
		if q.Recipe, err = recipeOf(c, q.DataID, q.Numerics, d.program); err != nil {
			return queue.Job{}, err
		}
	}
	if !s.Again && len(s.After) == 0 { // the jobs before it may change its data
		q.As = finishedAs(ctx, byRecipe(d.queue.Jobs())[q.Recipe])
	}
	return d.queueIn(s, q, d.queue.Submit)
}

// queueIn has add queue a submission in a run folder of its own, unless it is as a finished job, or adds trials to a sweep that is
// there.
func (d *desk) queueIn(s Submission, q queue.Submission, add func(queue.Submission) (queue.Job, error)) (queue.Job, error) {
	d.folders.Lock()
	defer d.folders.Unlock()
	if d.queue.Has(s.Key) { // it was sent twice at once
		return d.queue.Again(q)
	}
	if q.As != nil {
		return d.queue.Submit(q)
	}
	if s.Sweep != "" {
		of, err := d.continued(s, &q)
		if err != nil {
			return queue.Job{}, err
		}
		if of != nil {
			if err := checkRoom(q.Sweep.Disk-of.Sweep.Disk, of.Dir); err != nil {
				return queue.Job{}, err
			}
			return d.queue.Extend(of.ID, q.Sweep, q.Length, queue.Submitted{Key: s.Key, Text: s.Sweep})
		}
		if err := checkRoom(q.Sweep.Disk, s.place()); err != nil {
			return queue.Job{}, err
		}
	}
	dir, made, err := d.reserve(s, q.Name)
	if err == nil && (q.Sweep == nil || q.Sweep.Submitted == nil) { // otherwise its trials were there before
		err = d.checkLed(s)
	}
	if err != nil {
		return queue.Job{}, err
	}
	q.Dir = dir
	j, err := add(q)
	if made != "" && err != nil {
		_ = os.Remove(made)
	}
	return j, err
}

// plan finds out what the job takes, on devices of the kinds that it needs.
func (d *Daemon) plan(ctx context.Context, c *configs.Config, q *queue.Submission) (err error) {
	usable := d.usable()
	if q.Needs, err = needs(c, usable); err != nil {
		return err
	}
	places := order.Arrange([]order.Job{{Number: 1, Needs: q.Needs}}, usable)
	if places[0].Devices == nil {
		lacks := places[0].Lacks
		return fmt.Errorf("%w: the job needs %d devices of %s, and this daemon has %d: change devices.use, or start the daemon with more", berth.ErrOptions,
			lacks.Count, lacks.Kind, count(usable, lacks.Kind))
	}
	if q.Sweep != nil {
		q.Sweep.AtOnce = sideBySide(q.Needs, usable)
	}
	return foresee(ctx, c, berth.OpenOptions{Devices: d.owned, Use: deviceIDs(places[0].Devices)}, q)
}

// foresee plans the run, for its memory and its length. c gets the warm-up that the run has. A job that trains nothing, or
// whose config an input completes, is not planned.
func foresee(ctx context.Context, c *configs.Config, o berth.OpenOptions, q *queue.Submission) error {
	if q.Work != nil {
		q.Length = workLength
	}
	if q.Work != nil || q.Unplanned != nil {
		return nil
	}
	run, err := berth.Open(ctx, c, o)
	if err != nil {
		return err
	}
	defer run.Close()
	c.Schedule.Warmup = run.Config.Schedule.Warmup
	for _, m := range run.Plan().Memory {
		q.Memory = max(q.Memory, m.Peak)
	}
	q.Host, q.Data, q.DataID = run.HostBytes(), run.Data.Bytes(), run.Data.Info.Fingerprint
	if q.Numerics, err = numericsOf(run); err != nil {
		return err
	}
	vars := run.Plan().Graph.Vars
	q.Shapes = initial.Shapes(vars)
	given, err := initial.Open(ctx, q.Init, 0, vars) // a file that does not fit is told now
	if err != nil {
		return err
	}
	if err := given.Close(); err != nil {
		return err
	}
	step, err := run.StepTime(ctx)
	if err != nil {
		return err
	}
	q.Length = length(run, step.Seconds)
	if q.Sweep == nil {
		q.Steps = run.TotalSteps()
		return nil
	}
	if run.Data.Val == nil {
		return fmt.Errorf("%w: the trials of a sweep are ranked by their validation parts, and the config has none: give data.split", berth.ErrOptions)
	}
	q.Sweep.Steps, q.Sweep.Boundary, q.Sweep.Each = run.TotalSteps(), boundaryOf(run), q.Length
	q.Sweep.Checkpoints, q.Sweep.Files = disk(run)
	return nil
}

// saves is how many snapshots a run takes: one at each boundary, and those of checkpoint.every.
func saves(run *berth.Run) (n, boundaries int) {
	steps := run.TotalSteps()
	boundaries = 1 + (steps-1)/boundaryOf(run)
	n = boundaries
	if every := run.Config.Checkpoint.Every; every > 0 {
		n += steps / every
	}
	return n, boundaries
}

// disk is the most that a run's checkpoints take on the disk, one of them being written, and its other files.
func disk(run *berth.Run) (checkpoints, files int64) {
	const (
		empty       = 384 << 10 // a file of checkpoints beside their tensors, and for each its records
		each        = 16 << 10
		other       = 24 << 10 // config, report and log, beside the lines of steps and boundaries
		perStep     = 256
		perBoundary = 4 << 10
	)
	saves, boundaries := saves(run)
	keep, steps := run.Config.Checkpoint.Keep, run.TotalSteps()
	kept := keep.Last + keep.Best
	if keep.Every > 0 {
		kept += steps / keep.Every
	}
	const rungs = 2 // each has one
	kept = min(kept, saves+rungs) + 1
	return empty + int64(kept)*(run.StateBytes()+each), other + perStep*int64(steps) + perBoundary*int64(boundaries)
}

// perSave is the time of a save of a small model: it waits for the disk a few times.
const perSave = 10 * time.Millisecond

// length is what a run takes by its plan, whose step takes so many seconds. At each boundary come an evaluation,
// of whose samples a third of a step's work is done, and a save.
func length(run *berth.Run, step float64) time.Duration {
	saves, boundaries := saves(run)
	evaluated := 0
	if v := run.Data.Val; v != nil {
		evaluated = 1 + (v.Len()-1)/run.Config.Train.Batch
	}
	work := float64(run.TotalSteps()) + float64(boundaries)*float64(evaluated)/3
	return time.Duration(min(step*work*float64(time.Second)+float64(saves)*float64(perSave), math.MaxInt64/4))
}

// needs are the devices that a config asks for: one of the daemon's first kind if it does not say.
func needs(c *configs.Config, usable []order.Device) (list []order.Need, err error) {
	entries := []string{c.Devices.Use}
	if len(c.Devices.Each) > 0 {
		entries = entries[:0]
		for _, e := range c.Devices.Each {
			entries = append(entries, e.Use)
		}
	} else if !c.Given("devices.use") && len(usable) > 0 {
		entries[0] = usable[0].Kind
	}
	for _, e := range entries {
		counted, err := device.ParseList(e)
		if err != nil {
			return nil, err
		}
		for _, x := range counted {
			list = add(list, order.Need{Kind: x.Kind, Count: cmp.Or(x.Count, 1)})
		}
	}
	return list, nil
}

func add(list []order.Need, n order.Need) []order.Need {
	for i := range list {
		if list[i].Kind == n.Kind {
			list[i].Count += n.Count
			return list
		}
	}
	return append(list, n)
}

// atLeast is a list of needs that is enough for n, too.
func atLeast(list []order.Need, n order.Need) []order.Need {
	for i := range list {
		if list[i].Kind == n.Kind {
			list[i].Count = max(list[i].Count, n.Count)
			return list
		}
	}
	return append(list, n)
}

func count(devices []order.Device, kind string) (n int) {
	for _, d := range devices {
		if d.Kind == kind {
			n++
		}
	}
	return n
}

// cleaned is a path in one spelling; none stays none.
func cleaned(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Clean(path)
}

// checkLed refuses the folder of a sweep or a pipeline in which another one has the folders of its trials or steps: new ones would
// replace what is in them.
func (d *desk) checkLed(s Submission) error {
	if s.Dir == "" || s.Sweep == "" && len(s.Steps) == 0 {
		return nil
	}
	list, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", berth.ErrFolder, err)
	}
	for _, e := range list {
		mine := s.Sweep != "" && trialName.MatchString(e.Name())
		for i := range s.Steps {
			mine = mine || s.Steps[i].Name == e.Name()
		}
		if mine {
			of := "another job"
			for _, j := range d.queue.Jobs() {
				switch {
				case j.Dir != cleaned(s.Dir) || !j.Leads():
				case j.State == queue.Failed:
					of = fmt.Sprintf("job %d, which failed (trainer jobs resume %d tries it again)", j.ID, j.ID)
				default:
					of = fmt.Sprintf("job %d", j.ID)
				}
			}
			return fmt.Errorf("%w: %s has %s already, of %s: name another with --run, or delete it", berth.ErrFolder, s.Dir, e.Name(), of)
		}
	}
	return nil
}

// reserve chooses the run folder. made is the folder that it made for that, if it made one.
func (d *desk) reserve(s Submission, name string) (dir, made string, err error) {
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		return "", "", fmt.Errorf("%w: the run folder %s is no absolute path", berth.ErrOptions, s.Dir)
	}
	if strings.ContainsRune(s.Dir+s.Parent, 0) {
		return "", "", fmt.Errorf("%w: the run folder %q has a byte 0, which no folder's name can have", berth.ErrOptions, cmp.Or(s.Dir, s.Parent))
	}
	s.Dir = cleaned(s.Dir)
	used := map[string]int{}
	for _, j := range d.queue.Jobs() {
		if !j.State.Over() && j.As == 0 {
			used[j.Dir] = j.ID
		}
	}
	if s.Dir != "" {
		if id := used[s.Dir]; id != 0 {
			return "", "", fmt.Errorf("%w: %s is the run folder of job %d: name another with --run", berth.ErrFolder, s.Dir, id)
		}
		if err := rundir.CheckBegin(s.Dir); errors.Is(err, berth.ErrHasCheckpoint) {
			return "", "", fmt.Errorf("%w: %s: a job begins a run of its own: name another folder with --run, or go on with that run by trainer resume", berth.ErrHasCheckpoint, s.Dir)
		} else if err != nil {
			return "", "", err
		}
		return s.Dir, "", nil
	}
	if !filepath.IsAbs(s.Parent) || strings.ContainsAny(name, `/\`) {
		return "", "", fmt.Errorf("%w: the submission names no run folder", berth.ErrOptions)
	}
	if err := os.MkdirAll(s.Parent, 0o777); err != nil {
		return "", "", fmt.Errorf("run folder: %w", err)
	}
	for n := 1; ; n++ {
		dir = filepath.Join(s.Parent, name)
		if n > 1 {
			dir += "-" + strconv.Itoa(n)
		}
		if used[dir] != 0 { // somebody has removed it meanwhile: its job makes it again
			continue
		}
		err := os.Mkdir(dir, 0o777)
		if err == nil {
			return dir, dir, nil
		}
		if !os.IsExist(err) {
			return "", "", fmt.Errorf("run folder: %w", err)
		}
	}
}
