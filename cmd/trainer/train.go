package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// trainFlags are the flags of train and resume.
type trainFlags struct {
	options berth.TrainOptions
	quiet   bool
	waits   io.Writer // where it is shown what goes on before the first step; nil for nowhere
}

func addTrainFlags(c *cobra.Command) *trainFlags {
	f := &trainFlags{}
	o := &f.options
	c.Flags().IntVar(&o.MaxSteps, "max-steps", 0, "stop and save after that many steps since the run's beginning")
	c.Flags().DurationVar(&o.MaxTime, "max-time", 0, "stop and save, with exit code 75, before that long, such as 55m")
	c.Flags().StringVar(&o.Report, "report", "", "write the report to this file too, in place of what it holds")
	c.Flags().BoolVar(&o.AssertResident, "assert-resident", false, "fail if between epochs anything but the batch goes in, or anything unasked comes out")
	c.Flags().StringVar(&o.Dump, "dump", "", "write graph, plan, schedule, ledger and trace into this folder")
	c.Flags().BoolVar(&o.AllowChanged, "allow-changed", false, "resume although the config or the data has changed, and say how")
	c.Flags().BoolVar(&f.quiet, "quiet", false, "print nothing but errors")
	return f
}

func trainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "train CONFIG|NAME",
		Short: "Train a model",
		Long: "Train a model from a config file, or from a shipped config by name (see trainer configs).\n" +
			"Ctrl-C finishes the step, saves, and exits with 75, as do SIGTERM and a terminal that is closed; --resume goes on\n" +
			"from there. SIGUSR1 saves and goes on.",
		Example: "  trainer train digits\n  trainer train my.yaml --set train.epochs=3 --devices cpu:2 --run runs/try1\n  trainer train shakespeare --devices cpu:2 --threads 4",
		Args:    exactArgs(1),
	}
	cf, tf := addConfigFlags(c), addTrainFlags(c)
	o := &tf.options
	c.Flags().StringVar(&o.Dir, "run", "", "run folder (default runs/NAME)")
	c.Flags().BoolVar(&o.Resume, "resume", false, "continue from the run folder's newest checkpoint")
	c.Flags().BoolVar(&o.Fresh, "fresh", false, "begin anew; deletes what the run folder holds")
	c.Flags().StringVar(&o.Init, "init", "", "FILE.safetensors[:PREFIX] that gives the first weights by name")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := cf.load(c, args[0])
		if err != nil {
			return err
		}
		tf.waits = c.ErrOrStderr()
		return train(c.Context(), c.OutOrStdout(), cfg, tf)
	}
	return c
}

// train runs one training and prints what it came to.
func train(ctx context.Context, out io.Writer, cfg *configs.Config, f *trainFlags) (err error) {
	o := f.options
	if o.Dir == "" {
		o.Dir = filepath.Join("runs", cfg.Name)
	}
	if err := checkTrain(o); err != nil {
		return usageError{err}
	}
	o.Began = started
	if f.quiet {
		out, f.waits = io.Discard, nil
	}
	done := waiting(ctx, f.waits, "planning")
	run, err := openInTime(ctx, cfg, o)
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	p := newProgress(out, run)
	done = waiting(ctx, f.waits, "compiling")
	o.Observer = savesFrom(ctx, p.observer(), done)
	saveNow, undo := onUSR1()
	defer undo()
	o.SaveNow = saveNow
	rep, err := run.Train(ctx, o)
	done()
	atSignal(ctx).Store(leaves)
	p.finish()
	if rep != nil {
		printReport(out, run, rep, o.Dir)
	}
	return goOn(err, rep, o.Dir)
}

// goOn adds to the error of a stopped run how to go on with it.
func goOn(err error, rep *berth.Report, dir string) error {
	switch {
	case !errors.Is(err, berth.ErrStopped):
		return err
	case rep == nil:
		return fmt.Errorf("%w; %s", err, again)
	}
	return fmt.Errorf("%w and saved; continue with: trainer resume %s", err, dir)
}

// savesFrom ends waiting with the first thing to tell. Once the run has started,
// a signal saves.
func savesFrom(ctx context.Context, o *berth.Observer, done func()) *berth.Observer {
	started, note := o.Started, o.Note
	o.Started = func(s berth.Start) {
		done()
		atSignal(ctx).Store(saves)
		started(s)
	}
	o.Note = func(text string) {
		done()
		note(text)
	}
	return o
}

// again is the way to go on where nothing has been done yet.
const again = "there was nothing to save; continue with the same command"

// openInTime opens a run. A signal, or --max-time, that ends this stops the
// run like any other: it has lost nothing.
func openInTime(ctx context.Context, cfg *configs.Config, o berth.TrainOptions) (*berth.Run, error) {
	if o.MaxTime > 0 {
		var cancel func()
		ctx, cancel = context.WithDeadline(ctx, o.Began.Add(o.MaxTime))
		defer cancel()
	}
	run, err := berth.Open(ctx, cfg)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w before the first step: %w; %s", berth.ErrStopped, err, again)
	}
	return run, err
}

// onUSR1 asks for a checkpoint whenever SIGUSR1 comes. The returned function
// undoes it.
func onUSR1() (asked <-chan struct{}, undo func()) {
	c, out, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	signal.Notify(c, syscall.SIGUSR1)
	go func() {
		for {
			select {
			case <-c:
				select {
				case out <- struct{}{}:
				default: // one is asked for already
				}
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(c)
		close(done)
	}
}

// checkTrain refuses flags that exclude each other.
func checkTrain(o berth.TrainOptions) error {
	switch {
	case o.Resume && o.Fresh:
		return errors.New("--resume and --fresh exclude each other; give one")
	case o.Resume && o.Init != "":
		return errors.New("--resume and --init exclude each other: a resumed run takes its weights from the checkpoint")
	case o.AllowChanged && !o.Resume:
		return errors.New("--allow-changed is for --resume; give both, or neither")
	case o.MaxTime < 0:
		return fmt.Errorf("--max-time %v: expected a time above 0, such as 55m; 0: no limit", o.MaxTime)
	case o.MaxSteps < 0:
		return fmt.Errorf("--max-steps %d: expected a whole number of at least 0; 0: the config's epochs", o.MaxSteps)
	}
	return nil
}

// lossText is a loss for people: four decimals, unless it is too large or too
// small for them.
func lossText(v float64) string {
	if a := math.Abs(v); a >= 1e5 || a < 1e-4 && a > 0 {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// rmseText is an error in the unit of what is predicted, "" where there is none.
func rmseText(before string, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%srmse %.4g", before, *v)
}

func printReport(out io.Writer, run *berth.Run, r *berth.Report, dir string) {
	fmt.Fprint(out, many(r.Steps, "step"))
	if r.Throughput.SamplesPerS > 0 { // 0: the run was over before it was resumed
		fmt.Fprintf(out, ", %.0f samples/s, %.2f ms a step", r.Throughput.SamplesPerS, r.Throughput.StepMSP50)
	}
	if v := r.Final.ValLoss; v != nil {
		fmt.Fprintf(out, ", val loss %s%s", lossText(*v), rmseText(", ", run.RMSE(v)))
	}
	if v := r.Final.ValAccuracy; v != nil {
		fmt.Fprintf(out, ", accuracy %.2f%%", 100**v)
	}
	fmt.Fprintln(out)
	l := r.Ledger
	in, perStep := "", ""
	if s := l.SteadyState; s.CopyInBytesPerStep > 0 { // there was more than one step
		in = fmt.Sprintf(", %s a step (the batch has %s)", bytesText(s.CopyInBytesPerStep), bytesText(s.BatchBytesPerStep))
		perStep = fmt.Sprintf("%s in the median step, ", bytesText(s.PullBackBytesPerStep))
	}
	fmt.Fprintf(out, "in: weights %s once%s\nout: %s%s in all\n", bytesText(l.CopyInWeightBytes), in, perStep, bytesText(l.PullBackBytes))
	for _, a := range r.Allowed {
		fmt.Fprintf(out, "allowed: %s\n", a)
	}
	fmt.Fprintf(out, "weights %s\nrun folder %s\n", r.WeightsSHA256, dir)
}

// many is a number of things: 1 step, 2 steps.
func many(n int, what string) string { return fmt.Sprintf("%d %s", n, plural(n, what)) }

// plural is the word for that many.
func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
