package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/progress"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/internal/units"
)

// started is when the process began: --max-time counts from then.
var started = time.Now()

// training is the common part of train and resume.
type training struct {
	options  berth.TrainOptions
	quiet    bool
	verbose  bool
	ui       bool   // the page is served
	address  string // of it
	progress string // progressBar or progressJSON
	overfit  int    // steps on one batch alone; 0: train on all data
	removed  bool   // the run folder is, after the run
	note     string // printed first
	of       *cobra.Command
	stop     *signals.Stop
	faults   *faultFlag
	costs    *costsFlag
	timeout  time.Duration // of silence between ranks, until the run has its own; 0: the default
	ranks    *berth.Ranks  // that train together; nil: this process is alone
}

// The values of --progress.
const (
	progressBar  = "bar"
	progressJSON = "json"
)

// addTraining gives c the flags that train and resume share.
func addTraining(c *cobra.Command, stop *signals.Stop) *training {
	t := &training{of: c, stop: stop}
	o := &t.options
	c.Flags().IntVar(&o.MaxSteps, "max-steps", 0, "stop and save after `N` steps of the run, counted from its beginning; 0: no limit but the config's length")
	c.Flags().DurationVar(&o.MaxTime, "max-time", 0, "stop and save before this `TIME` is over, such as 55m, and exit with 75")
	c.Flags().StringVar(&o.Report, "report", "", "also write the report to `FILE`")
	c.Flags().BoolVar(&o.AssertResident, "assert-resident", false, "fail if a step copies anything but its batch in, or anything out that nobody asked for")
	c.Flags().StringVar(&o.Dump, "dump", "", "write graph, plan, schedule, ledger and trace into `DIR`")
	c.Flags().BoolVar(&o.AllowChanged, "allow-changed", false, "resume although the config, the data or the ISA level has changed")
	t.faults, t.costs = addFaults(c), addCosts(c, ", with "+measured)
	c.Flags().StringVar(&t.progress, "progress", progressBar, "`FORM` of what is printed: bar, or json for programs")
	c.Flags().BoolVar(&t.verbose, "verbose", false, "also print times, transfers and the weights' hash at the end")
	c.Flags().BoolVar(&t.ui, "ui", false, "show this training live in a browser: print the URL of its page (see trainer ui)")
	c.Flags().StringVar(&t.address, "address", pageAddress, "with --ui, listen at `HOST:PORT`; port 0 takes a free one")
	c.Flags().BoolVar(&t.quiet, "quiet", false, "print errors only")
	cli.Rare(c, "verbose", "address")
	return t
}

// chooseFolder chooses the run folder of train for a config with that name. Rank 0 chooses for all.
func (t *training) chooseFolder(ctx context.Context, name string, m runs.Mode) (err error) {
	if t.ranks == nil {
		return t.choose(name, m)
	}
	if t.ranks.Rank() == 0 {
		err = t.choose(name, m)
	} else {
		err = t.check()
	}
	if err = t.ranks.Decide(ctx, "its run folder", err); err != nil {
		return err
	}
	o := &t.options
	x := chosen{Dir: o.Dir, Resume: o.Resume}
	err = t.share(ctx, "the run folder", &x)
	o.Dir, o.Resume = x.Dir, x.Resume
	return err
}

// choose is chooseFolder for this process.
func (t *training) choose(name string, m runs.Mode) error {
	if err := t.check(); err != nil {
		return err
	}
	o := &t.options
	switch {
	case m != runs.Begin && o.Fresh:
		return cli.Usagef("--resume and --fresh exclude each other; give one")
	case m == runs.Resume && o.Init != "":
		return cli.Usagef("--resume and --init exclude each other: a resumed run takes its weights from the checkpoint")
	case o.AllowChanged && m == runs.Begin:
		return cli.Usagef("--allow-changed has a meaning only with --resume; give --resume too, or leave --allow-changed out")
	case o.Fresh:
		m = runs.Fresh
	}
	f, err := runs.ChooseFolder(o.Dir, name, m, reserved(t.of.Context()))
	o.Dir, o.Resume, t.note = f.Dir, f.Resume, f.Note
	if o.Resume {
		o.Init = "" // given for a run that begins
	}
	return err
}

// byJob says of checkpoints that are in use which job is trained there.
func byJob(err error, dir string) error {
	if !errors.Is(err, checkpoint.ErrHeld) {
		return err
	}
	job := queued.TrainsIn(dir)
	if job == 0 {
		return err
	}
	return fmt.Errorf("%w; that process trains job %d of the queue there: trainer jobs pause %[2]d gives the run free", err, job)
}

// check refuses numbers out of range, and reads the faults.
func (t *training) check() (err error) {
	o := &t.options
	if o.Faults, err = t.faults.parse(); err != nil {
		return err
	}
	switch {
	case t.progress != progressBar && t.progress != progressJSON:
		return cli.Usagef("--progress %s: expected bar or json", t.progress)
	case t.quiet && t.verbose:
		return cli.Usagef("--quiet and --verbose exclude each other; give one")
	case !t.ui && t.address != "" && t.address != pageAddress:
		return cli.Usagef("--address has a meaning only with --ui; give --ui too, or leave --address out")
	case o.MaxTime < 0:
		return cli.Usagef("--max-time %v: expected a time above 0, such as 55m; 0: no limit", o.MaxTime)
	case o.MaxSteps < 0:
		return cli.Usagef("--max-steps %d: expected a whole number of at least 0; 0: the config's length", o.MaxSteps)
	}
	return nil
}

// run trains and prints the outcome.
func (t *training) run(ctx context.Context, out, notes io.Writer, cfg *configs.Config) (err error) {
	failed := cmp.Or(t.check(), t.costs.check(cfg))
	var live *ownPage
	if failed == nil && t.ui && (t.ranks == nil || t.ranks.Rank() == 0) {
		live, failed = serveOwn(t.of, t.options.Dir, t.address)
		defer func() { live.close(t.of) }()
	}
	if err := t.agree(ctx, "its flags", failed); err != nil {
		return err
	}
	o, errs := t.options, notes
	o.Began = started
	if t.ranks != nil {
		t.note = strings.TrimPrefix(t.note+"\n"+t.ranksNote(), "\n")
	}
	if t.quiet {
		out, notes = io.Discard, nil
	}
	out = console.NewBestEffort(out, func(err error) {
		fmt.Fprintf(notes, "standard output: %v: nothing more is printed there, the run is not affected\n", console.Cause(err))
	})
	if text := queued.Beside(ctx, build.Revision()); text != "" && notes != nil {
		cli.Tell(t.of, notes, text)
	}
	waits := notes
	if t.progress == progressJSON {
		waits = nil
	}
	var doing phase.Share
	done := phase.WaitFor(ctx, waits, "planning", &doing)
	run, err := openInTime(ctx, cfg, o, berth.OpenOptions{Ranks: t.ranks, Costs: t.costs.path, Reading: doing.Say, Overfit: t.overfit})
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	live.show(run)
	defer live.show(nil)
	show := t.display(out, run)
	done = phase.Wait(ctx, waits, "preparing "+modelSize(run))
	o.Observer = t.savesOnceStarted(show.observer, done)
	live.observe(o.Observer)
	warn := o.Observer.Warn
	o.Observer.Warn = func(text string) { // under --quiet, too
		done()
		warn(text)
		cli.Tell(t.of, errs, text)
	}
	saveNow, undo := signals.SaveNow()
	defer undo()
	o.SaveNow = saveNow
	rep, err := run.Train(ctx, o)
	done()
	if err = byJob(byFault(byFlag(err)), o.Dir); t.overfit == 0 { // which nobody goes on with
		err = goOn(err, rep, o.Dir)
	}
	t.stop.Saves(false)
	t.stop.Done(cli.ExitCode(err))
	show.clear()
	if rep != nil {
		show.end(rep, closing{dir: t.kept(o.Dir), verbose: t.verbose, next: err == nil})
	}
	return err
}

// modelSize is the size of a run's model. It is known before the first weights are drawn
// and compiling begins, which take long for a model that is larger than was meant.
func modelSize(run *berth.Run) string {
	n := int64(0)
	for _, s := range run.Plan().Stages {
		n += s.Parameters
	}
	return fmt.Sprintf("a model of %s", units.Count(int(n), "parameter"))
}

// kept is the run folder; "" if it is removed.
func (t *training) kept(dir string) string {
	if t.removed {
		return ""
	}
	return dir
}

// display shows a run.
type display struct {
	observer *berth.Observer
	clear    func()
	end      func(*berth.Report, closing)
}

// mostColumns is the columns of a table that are printed before training.
const mostColumns = 40

// display shows a run on out in the form that --progress asks for.
func (t *training) display(out io.Writer, run *berth.Run) display {
	if t.progress == progressJSON {
		lines := progress.NewLines(out, progress.Of(run, t.options.MaxSteps))
		if t.note != "" {
			lines.Note(t.note)
		}
		return display{lines.Observer(), func() {}, func(r *berth.Report, c closing) { lines.End(r, c.dir) }}
	}
	out = console.NewProse(out)
	if t.note != "" {
		fmt.Fprintln(out, t.note)
	}
	if list := run.Data.Columns; list != nil && !t.options.Resume { // which the first run has printed
		fmt.Fprintln(out, columns.Table(list, mostColumns, console.Room(out))+columns.Thresholds)
	}
	bar := progress.New(out, progress.Of(run, t.options.MaxSteps))
	o := bar.Observer()
	o.Warn = func(string) { bar.Clear() }
	end := func(r *berth.Report, c closing) { printReport(out, run, r, c) }
	if t.overfit > 0 {
		end = func(r *berth.Report, _ closing) { printOverfit(out, run, r) }
	}
	return display{o, bar.Clear, end}
}

// byFlag names the flag in place of an option of the library.
func byFlag(err error) error {
	var o *berth.OutputError
	if errors.As(err, &o) {
		return fmt.Errorf("--%s %w", strings.ToLower(o.Option), o.Err)
	}
	return err
}

// nothingSaved ends the error of a run that was stopped before its first step.
func nothingSaved(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was nothing to save; continue with the same command and a longer --max-time"
	}
	return "there was nothing to save; continue with the same command"
}

// goOn adds to the error of a run that stopped, or lost a device or its initial
// weights, the command that continues it.
func goOn(err error, rep *berth.Report, dir string) error {
	var lost *berth.DeviceError
	var weights *berth.WeightsError
	switch {
	case errors.As(err, &lost) && lost.Saved > 0, errors.As(err, &weights) && weights.Saved > 0:
		return fmt.Errorf("%w; continue with: trainer resume %s", err, dir)
	case lost != nil, weights != nil:
		return fmt.Errorf("%w; begin again with the same command", err)
	case !errors.Is(err, berth.ErrStopped):
		return err
	case rep == nil:
		return fmt.Errorf("%w; %s", err, nothingSaved(err))
	}
	return fmt.Errorf("%w and saved; continue with: trainer resume %s", err, dir)
}

// savesOnceStarted makes a signal save once the run has started. The first event
// to tell ends the waiting.
func (t *training) savesOnceStarted(o *berth.Observer, waited func()) *berth.Observer {
	started, note := o.Started, o.Note
	o.Started = func(s berth.Start) {
		waited()
		t.stop.Saves(true)
		started(s)
	}
	o.Note = func(text string) {
		waited()
		note(text)
	}
	return o
}

// openInTime opens a run within --max-time. A run that is stopped while it opens
// has lost nothing: its error is berth.ErrStopped.
func openInTime(ctx context.Context, cfg *configs.Config, o berth.TrainOptions, open berth.OpenOptions) (*berth.Run, error) {
	ctx, cancel := o.InTime(ctx)
	defer cancel()
	if o.Resume {
		open.Resume = o.Dir
	}
	run, err := berth.Open(ctx, cfg, open)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w before the first step: %w; %s", berth.ErrStopped, err, nothingSaved(err))
	}
	return run, err
}
