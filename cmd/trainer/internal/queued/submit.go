package queued

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// Submit is the command submit.
func Submit(stop *signals.Stop, version string) *cobra.Command {
	var s jobs.Submission
	var wait bool
	c := &cobra.Command{
		Use:   "submit CONFIG|NAME",
		Short: "Queue a training",
		Long: "Queue a training of a config file, or of a shipped config by its name, for the devices of trainer up. A file with the key sweep queues a sweep, and one with jobs a pipeline. " +
			"The config is read and planned now, so a mistake in it queues nothing. The run folder is the first of runs/NAME, " +
			"runs/NAME-2, … that is not there. A job that was trained before is finished at once, as that one. Without a daemon, the job waits for one; with --wait it is trained here.",
		Example: "  trainer submit digits\n  trainer submit my.yaml --set train.epochs=3 --priority 1\n  trainer submit my.yaml --wait\n  trainer submit my.yaml --after 8",
		Args:    cli.Args(1),
	}
	cf := runs.AddConfigFlags(c, daemonKeys()...)
	c.Flags().StringVar(&s.Dir, "run", "", "train in the folder `DIR`")
	c.Flags().IntVar(&s.Priority, "priority", 0, "jobs of a higher `NUMBER` go first")
	c.Flags().IntSliceVar(&s.After, "after", nil, "begin once the job `ID` has finished; can be repeated")
	c.Flags().IntVar(&s.Retries, "retry", 2, "begin again up to `N` times after a failure that need not repeat")
	c.Flags().BoolVar(&wait, "wait", false, "wait for its end, and exit with the training's exit code")
	c.Flags().BoolVar(&s.Again, "again", false, "train though a finished job has the same weights")
	c.RunE = func(c *cobra.Command, args []string) error {
		of, err := sweepIn(args[0])
		if err != nil {
			return err
		}
		if of != nil {
			return queueSweep(c, cf, of, request{s, stop, version, wait, wait})
		}
		p, text, err := pipelineIn(args[0])
		if err != nil {
			return err
		}
		if p != nil {
			return queuePipeline(c, cf, args[0], p, text, request{s, stop, version, wait, wait})
		}
		cfg, err := cf.Load(c, args[0])
		if err != nil {
			return err
		}
		written, length := apart(cfg)
		s.Length = length
		return request{s, stop, version, wait, wait}.queue(c, cfg, written)
	}
	return c
}

// request is a submission that a command makes, and what it does then.
type request struct {
	jobs.Submission
	stop    *signals.Stop
	version string
	wait    bool // for the end
	here    bool // train in this command where no daemon does
}

// queue submits a config, as written, and waits if that is asked for. cfg is the config with all that was given.
func (r request) queue(c *cobra.Command, cfg, written *configs.Config) (err error) {
	if r.Config, err = written.Kept(); err != nil {
		return err
	}
	return r.send(c, cfg, func() { ignored(c, cfg) })
}

// send submits, and waits if that is asked for. cfg is the config that was typed; nil: there are several. notes tells of
// what does not count where a daemon runs the job.
func (r request) send(c *cobra.Command, cfg *configs.Config, notes func()) (err error) {
	if r.Dir != "" {
		if r.Dir, err = filepath.Abs(r.Dir); err != nil {
			return err
		}
	}
	if r.Parent, err = filepath.Abs("runs"); err != nil {
		return err
	}
	r.Key = newKey()
	d, daemon, j, err := submit(c.Context(), r.Submission, r.version)
	if err != nil && cfg != nil {
		return typed(err, r.Config, cfg)
	}
	if err != nil {
		return err
	}
	defer func() { d.Close() }()
	if daemon || !r.here {
		notes()
	}
	out := console.NewProse(c.OutOrStdout())
	line := r.announced(&j)
	if j.As != 0 {
		fmt.Fprintln(out, line)
		return nil
	}
	waits := r.wait || r.here && !daemon
	switch client, _ := d.(*socket.Client); {
	case waits && client != nil && client.Daemon().Only != 0:
		line += fmt.Sprintf("; begins here after job %d, which process %d trains", client.Daemon().Only, client.Daemon().Process)
	case daemon || !waits: // otherwise it begins here
		line += begins(c.Context(), d, j.ID)
	}
	fmt.Fprintln(out, line)
	if waits {
		w := waiter{notes: notesOf(c), screen: &screen{out: out}, stop: r.stop, version: r.version, id: j.ID, leads: j.Leads()}
		w.notes.told[note{queue.Waiting, 0}] = true
		if err := w.end(c.Context(), d); err != nil || j.Sweep == nil {
			return err
		}
		return r.ended(c.Context(), out, j.ID)
	}
	return nil
}

// ended says how a sweep ended for which the command has waited.
func (r request) ended(ctx context.Context, out io.Writer, id int) error {
	d, _, err := openDesk(ctx, r.version)
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := standing(ctx, d, id)
	if err != nil || st.Decision.Best == 0 {
		return err
	}
	fmt.Fprintf(out, "best: %s\nnext: trainer sweep show %d\n", bestOf(st), id)
	return nil
}

// sentLine is a place in the config that was sent.
var sentLine = regexp.MustCompile(regexp.QuoteMeta(jobs.SubmittedConfig) + `:(\d+)`)

// typed is the error about a submission with the places that were typed, in cfg, in place of those in the text that
// was sent for it.
func typed(err error, sent []byte, cfg *configs.Config) error {
	as, unread := configs.Parse(jobs.SubmittedConfig, sent, configs.Overlay{})
	if unread != nil {
		return err
	}
	text := sentLine.ReplaceAllStringFunc(err.Error(), func(place string) string {
		line, _ := strconv.Atoi(sentLine.FindStringSubmatch(place)[1])
		return cfg.Where(as.KeyAt(line)).String()
	})
	return placed{err, text}
}

// placed is an error with another text.
type placed struct {
	error
	text string
}

func (e placed) Error() string { return e.text }
func (e placed) Unwrap() error { return e.error }

// decidesWithin is how long a daemon may take to decide about a new job, and to let another one's step end.
const decidesWithin = time.Second

// begins says where a new job begins, or why it waits.
func begins(ctx context.Context, d desk, id int) string {
	for began := time.Now(); ; time.Sleep(decidesWithin / 100) {
		v, err := d.View(ctx, id)
		switch {
		case err == nil && v.State == queue.Paused: // a sweep that was there
			return fmt.Sprintf("; it is paused: trainer jobs resume %d lets it go on", id)
		case err != nil || v.Where == "":
			return ""
		case v.State == queue.Running && v.Leads():
			return "; begins now"
		case v.State == queue.Running:
			return "; begins now on " + v.Where
		case v.Where != jobs.AboutToBegin || time.Since(began) > decidesWithin:
			return "; " + v.Where
		}
	}
}

// announced says which job was queued.
func (r request) announced(j *queue.Job) string {
	if j.Sweep != nil {
		return announcedSweep(j)
	}
	if j.Pipeline {
		return announcedPipeline(j, r.Steps)
	}
	if j.As != 0 {
		return fmt.Sprintf("job %d is %s, as job %d in %s: it has the same weights, so nothing is trained (--again does)", j.ID, j.State, j.As, shortPath(j.Dir))
	}
	return fmt.Sprintf("job %d in %s: %s", j.ID, shortPath(j.Dir), outlook(j))
}

// apart is a config with the length that its file gives, and what has another length in
// place of it, for --set. A warm-up that was asked for is among that.
func apart(cfg *configs.Config) (written *configs.Config, length []string) {
	if cfg.Overridden("schedule.warmup") {
		return cfg, []string{fmt.Sprintf("schedule.warmup=%d", cfg.Schedule.Warmup)}
	}
	whole, ok := cfg.Shortened()
	if !ok {
		return cfg, nil
	}
	c := *cfg
	for _, x := range []struct {
		key      string
		was      int
		now, its *int
	}{
		{"train.epochs", whole.Train.Epochs, &cfg.Train.Epochs, &c.Train.Epochs},
		{"train.steps", whole.Train.Steps, &cfg.Train.Steps, &c.Train.Steps},
		{"train.batch", whole.Train.Batch, &cfg.Train.Batch, &c.Train.Batch},
	} {
		*x.its = x.was
		if *x.now != x.was && *x.now > 0 { // 0: another key stands in place of it
			length = append(length, fmt.Sprintf("%s=%d", x.key, *x.now))
		}
	}
	return &c, length
}

// waiter waits for the end of a job, and trains it where no daemon does.
type waiter struct {
	notes   *notes
	screen  *screen
	stop    *signals.Stop
	version string
	id      int
	leads   bool
}

// end returns the job's failure. Another command that trains one job has the queue until that ends.
func (w waiter) end(ctx context.Context, d desk) error {
	for {
		if client, ok := d.(*socket.Client); ok {
			err := wait(ctx, client, w.id, w.notes)
			if client.Daemon().Only == 0 || !unanswered(err) {
				return err
			}
		}
		d.Close()
		err := w.train(ctx)
		if !errors.Is(err, queue.ErrHeld) {
			return err
		}
		path, missing := queuePath()
		if missing != nil {
			return missing
		}
		client, missing := dialSoon(ctx, path, w.version, betweenDaemons)
		if missing != nil {
			return err
		}
		defer client.Close()
		d = client
	}
}

// daemonKeys are the keys of a config that do not count for a job: those of trainer up do. Of its own it has the
// devices that it asks for, and the memory that it may use of each.
func daemonKeys() (keys []string) {
	for _, key := range configs.Keys() {
		if strings.HasPrefix(key, "devices.") && key != "devices.use" && key != "devices.memory" {
			keys = append(keys, key)
		}
	}
	return keys
}

// ignored tells of keys that were given another value than their default, and do not count.
func ignored(c *cobra.Command, cfg *configs.Config) {
	value := func(d configs.Devices) map[string]string {
		of, values := *cfg, map[string]string{}
		of.Devices = d.WithDefaults()
		list, _ := of.AllSettings() // what cannot be written is a value, too
		for _, s := range list {
			values[s.Key] = s.Value
		}
		return values
	}
	has, usual := value(cfg.Devices), value(configs.Devices{})
	given := slices.DeleteFunc(daemonKeys(), func(key string) bool { return !cfg.Given(key) || has[key] == usual[key] })
	if len(given) > 0 {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("%s: trainer up has its own, so the job's does not count", strings.Join(given, ", ")))
	}
}

// mostTries is how often a submission is sent that is not answered: a config whose planning ends the daemon would
// end each one.
const mostTries = 3

// submit sends a submission, and sends it again where the answer was lost: its key makes no second job. It leaves the
// desk open.
func submit(ctx context.Context, s jobs.Submission, version string) (d desk, daemon bool, j queue.Job, err error) {
	for range mostTries {
		if d, daemon, err = openDesk(ctx, version); err != nil {
			return nil, false, j, err
		}
		if j, err = d.Submit(ctx, s); err == nil {
			return d, daemon, j, nil
		}
		d.Close()
		if ctx.Err() != nil && daemon && unanswered(err) {
			return nil, false, j, fmt.Errorf("%w before the daemon answered: trainer jobs ls says whether the job is queued", errStopped)
		}
		if ctx.Err() != nil || !unanswered(err) && !errors.Is(err, queue.ErrHeld) { // a daemon may have begun while this planned
			break
		}
	}
	return nil, false, j, err
}

// unanswered says whether a daemon ended, or had ended, before it answered.
func unanswered(err error) bool {
	return errors.Is(err, socket.ErrNoAnswer) || errors.Is(err, socket.ErrNoDaemon) || errors.Is(err, queue.ErrClosed)
}

// outlook is what the plan says of a job.
func outlook(j *queue.Job) string {
	switch {
	case j.Pipeline:
		return "that of each of its jobs"
	case j.Unplanned != nil:
		return "made once its inputs have finished"
	case j.Work != nil:
		return "none: it trains nothing (" + j.Work.Kind + ")"
	}
	length, from := j.Predicted, "by arithmetic"
	if j.Length > 0 {
		length, from = j.Length, "as measured"
	}
	text := fmt.Sprintf("at most %s on a device and %s of host memory, ", units.Bytes(j.Memory), units.Bytes(j.Host+j.Data))
	if j.Steps > 0 { // a sweep has trials of many lengths
		text += fmt.Sprintf("%s a step and ", units.Seconds(length.Seconds()/float64(j.Steps)))
	}
	return text + fmt.Sprintf("%s in all %s", units.Seconds(length.Seconds()), from)
}

// shortPath is a path as one would type it here.
func shortPath(path string) string {
	if here, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// train trains the job in this process. Other commands reach the queue meanwhile.
func (w waiter) train(ctx context.Context) (err error) {
	path, err := queuePath()
	if err != nil {
		return err
	}
	o := jobs.Options{Queue: path, Observe: w.screen.observe, Told: w.screen.tell}
	if w.leads { // its trials would show at once
		o.Observe = observe
	}
	d, err := jobs.OpenFor(w.id, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	w.stop.Saves(true)
	defer w.stop.Saves(false)
	only := socket.ThisProgram(w.version)
	only.Only = w.id
	var v jobs.View
	stopped, err := serve(ctx, path, d, only, func(ctx context.Context) (err error) {
		v, err = d.RunOnly(ctx, w.id)
		return err
	})
	if err != nil {
		return err
	}
	if v.State == queue.Paused {
		return fmt.Errorf("%w and saved: job %d is paused: trainer jobs resume %d lets it go on", errStopped, w.id, w.id)
	}
	if v.Stuck != 0 {
		by, err := d.View(v.Stuck)
		if err != nil {
			return err
		}
		return stuck(&v, &by)
	}
	if !v.State.Over() && !stopped && (v.Waits() || v.Pipeline) {
		return fmt.Errorf("job %d does not begin: %s, and this command runs job %d alone: start trainer up, which runs both", w.id, v.Where, w.id)
	}
	if !v.State.Over() && stopped && v.Sweep != nil && v.StepOf == nil && !v.Again {
		return fmt.Errorf("%w and saved: job %d goes on with the same command, or with trainer up", errStopped, w.id)
	}
	if !v.State.Over() && stopped && v.Leads() {
		return fmt.Errorf("%w and saved: job %d goes on with trainer up", errStopped, w.id)
	}
	if !v.State.Over() && stopped {
		return fmt.Errorf("%w and saved: job %d goes on with trainer up, or with trainer resume %s", errStopped, w.id, shortPath(v.Dir))
	}
	return outcome(&v)
}
