package queued

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/progress"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// Up is the command up: the daemon, in the foreground.
func Up(stop *signals.Stop, version string) *cobra.Command {
	var devices configs.Devices
	var onEnd string
	c := &cobra.Command{
		Use:   "up",
		Short: "Train the jobs that are submitted",
		Long: "Own devices, and train the jobs of the queue on them until Ctrl-C or trainer down. Then running jobs are saved; " +
			"they go on with the next trainer up. The queue is a file in the user's state folder; BERTH_QUEUE names another.",
		Example: "  trainer up\n  trainer up --devices cpu:2",
		Args:    cli.Args(0),
	}
	c.Flags().StringVar(&devices.Use, "devices", "cpu:1", "`DEVICES` to own, a kind and a count. cpu: one with all cores; cpu:2: two that divide them")
	c.Flags().IntVar(&devices.Threads, "threads", 0, "`N` worker threads of all devices together; 0: one for each core")
	c.Flags().Var((*cli.Size)(&devices.HostMemory), "host-memory", "most host memory for all jobs together, a `SIZE` such as 8GiB (default: what devices leave free)")
	c.Flags().StringVar(&onEnd, "on-end", "", "`COMMAND` to run for each job that ends, with the job as JSON on its input")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return up(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), stop, devices, onEnd, version)
	}
	return c
}

func up(ctx context.Context, out, errs io.Writer, stop *signals.Stop, devices configs.Devices, onEnd, version string) (err error) {
	if err := supported(); err != nil {
		return err
	}
	path, err := queuePath()
	if err != nil {
		return err
	}
	out = console.NewProse(out)
	d, err := jobs.Open(jobs.Options{
		Queue: path, Devices: devices, Observe: observe,
		Told:  func(line string) { fmt.Fprintln(out, time.Now().Format(time.DateTime), line) },
		Ended: func(j queue.Job) { runOnEnd(ctx, errs, onEnd, j) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	stop.Saves(true)
	defer stop.Saves(false)
	fmt.Fprintf(out, "trains on %s the jobs of %s. Submit with: trainer submit CONFIG\n", d.Devices(), path)
	_, err = serve(ctx, path, d, socket.ThisProgram(version), d.Run)
	return err
}

// supported says whether commands can reach a daemon on this system.
var supported = socket.Supported

// serve answers commands while run runs the daemon. stopped says that it was to end before it was done.
func serve(ctx context.Context, path string, d *jobs.Daemon, p socket.Program, run func(context.Context) error) (stopped bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if supported() != nil { // a job that trains here needs none
		err = run(ctx)
		return ctx.Err() != nil, err
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	down := func(finish bool) {
		if finish {
			d.Finish()
		} else {
			cancel()
		}
	}
	go func() {
		err := socket.Serve(serving, socket.Path(path), d, p, down)
		if err != nil {
			cancel()
		}
		served <- err
	}()
	err = run(ctx)
	stopped = ctx.Err() != nil
	stopServing() // not before all is saved: commands see until then what becomes of the jobs
	return stopped, errors.Join(err, <-served)
}

// observe writes to a job's log what train prints where there is no terminal.
func observe(log io.Writer, run *berth.Run) *berth.Observer {
	return progress.New(log, progress.Of(run, 0)).Observer()
}

// longestOnEnd is how long the command of --on-end may take.
const longestOnEnd = time.Minute

// runOnEnd runs a command for a job that is over. What it prints goes to the daemon's errors.
func runOnEnd(ctx context.Context, errs io.Writer, command string, j queue.Job) {
	if command == "" {
		return
	}
	v := jobs.ViewOf(j)
	text, err := json.Marshal(recordOf(&v))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestOnEnd)
	defer cancel()
	shell := []string{"/bin/sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c", command}
	}
	run := exec.CommandContext(ctx, shell[0], shell[1:]...)
	run.WaitDelay = time.Second // for what it has started and left
	run.Stdin, run.Stdout, run.Stderr = bytes.NewReader(text), errs, errs
	if err := run.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintf(errs, "--on-end for job %d: %v\n", j.ID, err)
	}
}

// gone waits until the daemon has ended, and the next one can have its queue.
func gone(ctx context.Context, client *socket.Client, path string) error {
	err := client.Gone(ctx)
	for err == nil && queue.Holder(path) == client.Daemon().Process {
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
	return err
}

// lasting says which jobs run, of those for which a daemon waits that begins no others.
func lasting(list []jobs.View) string {
	var text []string
	for i := range list {
		v := &list[i]
		if v.Leads() || v.State != queue.Running {
			continue
		}
		line := fmt.Sprintf("job %d (%s)", v.ID, v.Name)
		if e := ends(v); e != "" {
			line += ", which ends " + e
		}
		text = append(text, line)
	}
	if len(text) == 0 {
		return ""
	}
	return "waits for " + strings.Join(text, "; ")
}

// Down is the command down.
func Down(version string) *cobra.Command {
	var finish bool
	c := &cobra.Command{
		Use:     "down",
		Short:   "Save the jobs that run, and end trainer up",
		Example: "  trainer down\n  trainer down --finish",
		Args:    cli.Args(0),
	}
	c.Flags().BoolVar(&finish, "finish", false, "let the jobs that have begun end first, and begin no others")
	c.RunE = func(c *cobra.Command, _ []string) error {
		path, err := queuePath()
		if err != nil {
			return err
		}
		client, err := socket.Dial(c.Context(), socket.Path(path), socket.ThisProgram(version))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := client.Down(c.Context(), finish); err != nil {
			return err
		}
		until := "it has saved the jobs that run"
		if finish {
			until = "the jobs have ended that have begun"
			if list, _, err := client.Views(c.Context()); err == nil { // an error says that it has ended
				if text := lasting(list); text != "" {
					cli.Tell(c, c.ErrOrStderr(), text)
				}
			}
		}
		err = gone(c.Context(), client, path)
		if c.Context().Err() != nil {
			return fmt.Errorf("%w waiting: trainer up ends once %s", errStopped, until)
		}
		return err
	}
	return c
}
