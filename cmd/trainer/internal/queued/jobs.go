package queued

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

var errStopped = berth.ErrStopped

// Jobs is the command jobs with its subcommands.
func Jobs(version string) *cobra.Command {
	c := &cobra.Command{
		Use:     "jobs",
		Short:   "List, pause, resume and cancel queued trainings",
		Example: "  trainer jobs ls\n  trainer jobs logs 8 -f",
	}
	cli.Group(c)
	m := maker{version}
	c.AddCommand(
		cli.Printing(m.ls()), cli.Printing(m.show()), cli.Printing(m.logs()), m.wait(),
		m.wish("pause", queue.Pause, "Save a job and let it rest"),
		m.wish("resume", queue.Run, "Let a paused or failed job go on"),
		m.wish("cancel", queue.Cancel, "End a job; its run folder stays"),
		m.set(), m.rm(),
	)
	return c
}

// maker makes the subcommands.
type maker struct{ version string }

// of makes a command that is about one job.
func (m maker) of(c *cobra.Command, run func(c *cobra.Command, d desk, id int) error) *cobra.Command {
	c.Use += " ID"
	c.Args = cli.Args(1)
	if c.Example == "" {
		c.Example = "  trainer jobs " + c.Name() + " 8"
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := strconv.Atoi(args[0])
		if err != nil || id < 1 {
			return cli.Usagef("job %s: expected a number, as trainer jobs ls lists them", args[0])
		}
		d, _, err := openDesk(c.Context(), m.version)
		if err != nil {
			return err
		}
		defer d.Close()
		return run(c, d, id)
	}
	return c
}

func (m maker) ls() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List all jobs, and why each that waits does", Args: cli.Args(0),
		Example: "  trainer jobs ls\n  trainer jobs ls --json",
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of objects")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, _, err := openDesk(c.Context(), m.version)
		if err != nil {
			return err
		}
		defer d.Close()
		list, full, err := d.Views(c.Context())
		if err != nil {
			return err
		}
		if full != "" {
			cli.Tell(c, c.ErrOrStderr(), "the queue cannot be written, so requests are refused and nothing begins: "+full)
		}
		if asJSON {
			records := make([]Record, len(list))
			for i := range list {
				records[i] = listedRecord(&list[i])
			}
			return printJSON(c.OutOrStdout(), records)
		}
		return printJobs(c.OutOrStdout(), list, console.Room(c.OutOrStdout()))
	}
	return c
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// mostWhere is how much of a failure a table has that is to fit a terminal: show has the rest.
const mostWhere = 80

// printJobs prints a table in lines of so many columns.
func printJobs(out io.Writer, list []jobs.View, width int) error {
	rows := [][]string{{"JOB", "NAME", "STATE", "STEP", "LOSS", "ENDS", "WHERE, OR WHY NOT"}}
	for _, v := range list {
		step := steps(&v)
		switch {
		case v.Trial != nil: // sweep show has it
			continue
		case v.Sweep != nil:
			step = trials(list, &v)
		case v.Pipeline:
			step = stepsDone(list, v.ID)
		}
		where := inALine(v.Where)
		if v.State == queue.Failed && width < math.MaxInt {
			where = text.Short(where, mostWhere)
		}
		rows = append(rows, []string{fmt.Sprint(v.ID), v.Name, string(v.State), step, loss(v.Loss), ends(&v), where})
	}
	_, err := io.WriteString(out, columns.Format(rows, columns.Layout{Cut: []int{6, 1}, Prose: []int{6}, Drop: []int{4, 5, 3}, Width: width}))
	return err
}

// inALine is a text of several lines, such as the errors of several trials, in one.
func inALine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

func steps(v *jobs.View) string {
	if v.Steps == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", v.Step, v.Steps)
}

func loss(x *float64) string { return metric("loss", x) }

// metric is a metric by its name; "" for none.
func metric(name string, x *float64) string {
	if x == nil {
		return ""
	}
	return text.Metric(name, *x)
}

func ends(v *jobs.View) string {
	if v.Ends == nil {
		return ""
	}
	return "in " + roughly(time.Until(*v.Ends))
}

// roughly is a time in one unit.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func (m maker) show() *cobra.Command {
	var asJSON, config bool
	c := &cobra.Command{Use: "show", Short: "Show a job: its plan, its attempts, and what happened to it"}
	c.Flags().BoolVar(&asJSON, "json", false, "print an object")
	c.Flags().BoolVar(&config, "config", false, "print its config, as it was resolved when it was submitted")
	return m.of(c, func(c *cobra.Command, d desk, id int) error {
		if config {
			yaml, err := d.Config(c.Context(), id)
			fmt.Fprint(c.OutOrStdout(), yaml)
			return err
		}
		v, err := d.View(c.Context(), id)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), recordOf(&v))
		}
		var steps []*jobs.View
		if v.Pipeline {
			list, _, err := d.Views(c.Context())
			if err != nil {
				return err
			}
			steps = stepsOf(list, id)
		}
		printJob(console.NewProse(c.OutOrStdout()), &v, steps)
		return nil
	})
}

// givenAs words what an input gives.
var givenAs = map[string]string{queue.AsInit: ": the weights to begin with", queue.AsRun: ": the run", queue.AsTokenizer: ": the tokenizer"}

// printJob prints a job, a pipeline with its steps.
func printJob(out io.Writer, v *jobs.View, steps []*jobs.View) {
	line := fmt.Sprintf("job %d (%s): %s", v.ID, v.Name, v.State)
	if v.Where != "" {
		line += ", " + inALine(v.Where)
	}
	if v.Sweep != nil {
		line += fmt.Sprintf(": trainer sweep show %d lists its trials", v.ID)
	}
	if v.Trial != nil {
		line += fmt.Sprintf(": trial %d of sweep %d", v.Trial.Number, v.Trial.Sweep)
	}
	if v.StepOf != nil {
		line += fmt.Sprintf(": step %s of pipeline %d", v.StepOf.Name, v.StepOf.Pipeline)
	}
	fmt.Fprintf(out, "%s\nrun folder  %s\nplan        %s\npriority    %d\n", line, shortPath(v.Dir), outlook(&v.Job), v.Priority)
	for _, s := range steps {
		fmt.Fprintf(out, "step        job %d (%s): %s\n", s.ID, s.Name, s.State)
	}
	for _, in := range v.Inputs {
		fmt.Fprintf(out, "input       job %d%s\n", in.Job, givenAs[in.As])
	}
	for _, m := range v.Made {
		fmt.Fprintf(out, "made        %s, SHA-256 %s\n", shortPath(m.Path), m.SHA256)
	}
	for i, a := range v.Attempts {
		line := fmt.Sprintf("attempt %d   %s", i+1, a.Began.Local().Format(time.DateTime))
		if !a.Ended.IsZero() {
			line += " to " + a.Ended.Local().Format(time.DateTime)
		}
		if len(a.Devices) > 0 { // it trained
			line += fmt.Sprintf(" on %v", a.Devices)
		}
		if a.Error != "" {
			line += ": " + inALine(a.Error)
		}
		fmt.Fprintln(out, line)
	}
	for _, e := range v.Events {
		fmt.Fprintf(out, "  %s  %s\n", e.At.Local().Format(time.DateTime), e.What)
	}
}

func (m maker) logs() *cobra.Command {
	var follow bool
	c := &cobra.Command{Use: "logs", Short: "Print what a job's training printed", Example: "  trainer jobs logs 8 -f"}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job is over")
	return m.of(c, func(c *cobra.Command, d desk, id int) error {
		v, err := d.View(c.Context(), id)
		if err != nil {
			return err
		}
		if v.Pipeline {
			if follow {
				return cli.Usagef("job %d is a pipeline: follow one of its jobs, which trainer jobs ls lists", id)
			}
			return stepLogs(c, d, id)
		}
		if v.Sweep != nil {
			if follow {
				return cli.Usagef("job %d is a sweep: follow a trial, whose job trainer sweep show %d --json has", id, id)
			}
			return trialLogs(c, d, id)
		}
		reader := jobs.NewLogReader(v.Dir)
		defer reader.Close()
		if err := reader.Copy(c.OutOrStdout()); err != nil || !follow || v.State.Over() {
			return err
		}
		if d, err = m.lasting(c, d, &v); err != nil {
			return err
		}
		defer d.Close()
		notes := notesOf(c)
		_, err = await(c.Context(), d, id, func(v *jobs.View) error {
			return errors.Join(reader.Copy(c.OutOrStdout()), notes.see(v))
		})
		return err
	})
}

// lasting is a desk that a command may keep while it waits for a job: that of a daemon, which may be about to start. A queue
// without one is given free, since a daemon that starts now needs it.
func (m maker) lasting(c *cobra.Command, d desk, v *jobs.View) (desk, error) {
	if _, ok := d.(local); !ok {
		return d, nil
	}
	d.Close()
	path, err := queuePath()
	if err != nil {
		return nil, err
	}
	client, err := dialSoon(c.Context(), path, m.version, 0)
	if errors.Is(err, socket.ErrNoDaemon) {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("job %d is %s, and no daemon runs: waits %.0f s for trainer up to start", v.ID, v.State, withoutDaemon.Seconds()))
		client, err = dialSoon(c.Context(), path, m.version, withoutDaemon)
	}
	switch {
	case c.Context().Err() != nil, errors.Is(err, socket.ErrNoDaemon):
		return nil, fmt.Errorf("%w waiting: job %d is %s, and no daemon runs: start trainer up, and wait again", errStopped, v.ID, v.State)
	case err != nil:
		return nil, err
	}
	return client, nil
}

// withoutDaemon is how long a command that waits for a job waits for the first daemon: a script may start both at once.
const withoutDaemon = 5 * time.Second

func (m maker) wait() *cobra.Command {
	return m.of(&cobra.Command{Use: "wait", Short: "Wait for a job's end, and exit with its training's exit code"},
		func(c *cobra.Command, d desk, id int) error {
			v, err := d.View(c.Context(), id)
			if err != nil {
				return err
			}
			if !v.State.Over() && v.Stuck == 0 {
				if d, err = m.lasting(c, d, &v); err != nil {
					return err
				}
				defer d.Close()
			}
			return wait(c.Context(), d, id, notesOf(c))
		})
}

// dialSoon reaches a daemon, also one that starts within some time.
func dialSoon(ctx context.Context, path, version string, within time.Duration) (client *socket.Client, err error) {
	for began := time.Now(); ; {
		client, err = socket.Dial(ctx, socket.Path(path), socket.ThisProgram(version))
		if !errors.Is(err, socket.ErrNoDaemon) || time.Since(began) > within {
			return client, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

func (m maker) wish(name string, w queue.Wish, short string) *cobra.Command {
	return m.of(&cobra.Command{Use: name, Short: short}, func(c *cobra.Command, d desk, id int) error {
		j, err := d.Want(c.Context(), id, w)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "job %d is %s%s\n", id, j.State, soon(&j))
		return nil
	})
}

// soon says what becomes of a job that is still open.
func soon(j *queue.Job) string {
	switch {
	case !j.Open():
		return ""
	case j.Wish == queue.Pause:
		return "; it is paused once its step has ended and it is saved"
	case j.Wish == queue.Cancel:
		return "; it ends once its step has ended and it is saved"
	}
	return ""
}

func (m maker) set() *cobra.Command {
	var priority int
	c := &cobra.Command{Use: "set", Short: "Change a job's priority", Example: "  trainer jobs set 8 --priority 2"}
	c.Flags().IntVar(&priority, "priority", 0, "jobs of a higher `NUMBER` go first")
	return m.of(c, func(c *cobra.Command, d desk, id int) error {
		if !c.Flags().Changed("priority") {
			return cli.Usagef("nothing is to be set: give --priority NUMBER")
		}
		_, err := d.SetPriority(c.Context(), id, priority)
		return err
	})
}

func (m maker) rm() *cobra.Command {
	return m.of(&cobra.Command{Use: "rm", Short: "Forget a job; its run folder stays (runs rm deletes it)"},
		func(c *cobra.Command, d desk, id int) error { return d.Remove(c.Context(), id) })
}
