package queued

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// Sweep is the command sweep with its subcommands.
func Sweep(stop *signals.Stop, version string) *cobra.Command {
	r := request{stop: stop, version: version, here: true}
	r.Retries = 2
	var vary []string
	c := &cobra.Command{
		Use:   "sweep CONFIG|NAME",
		Short: "Queue many trainings of a config, each with other values of some keys",
		Long: "Train a config many times, each time with other values of some keys. The trials are jobs of trainer up, and the sweep " +
			"is one, too: trainer jobs pauses, resumes and cancels it. Without a daemon, it runs here.",
		Example: "  trainer sweep digits --vary optimizer.lr=log:1e-4..1e-1 --trials 40 --halving\n  trainer sweep digits --vary model.hidden='[64],[128,64]' --vary seed=1,2,3\n  trainer sweep show 9\n  trainer sweep best 9 --out best.yaml",
		Args:    cli.Args(1),
	}
	c.Flags().StringArrayVar(&vary, "vary", nil, "a key and its values: `KEY=VALUES`, a list such as 32,64 or a range such as 0..0.5; log: before a range draws by magnitude")
	own := pflag.NewFlagSet("sweep", pflag.ContinueOnError)
	own.Int("trials", 0, "how many trainings, a `NUMBER`")
	own.String("metric", "val_loss", "the `METRIC` that ranks them, named as in checkpoint.best")
	own.String("strategy", "", "which values are tried, a `STRATEGY`: grid, random, halton or tpe (default: halton with a range, else grid)")
	own.Bool("halving", false, "all train for a ninth of their steps, the best third for a third, the best ninth to the end")
	own.Int("keep", 3, "trials whose checkpoints stay: the best `NUMBER`")
	own.Int("at-once", 0, "most trials that run at once, a `NUMBER` (default: one for each device)")
	own.Bool("keep-going", false, "go on though the first three trials failed")
	own.Uint64("seed", 1, "the `SEED` of the values that are drawn")
	c.Flags().AddFlagSet(own)
	cf := runs.AddConfigFlags(c, configs.Keys()...)
	c.Flags().StringVar(&r.Dir, "run", "", "keep the trials in the folder `DIR`")
	c.Flags().IntVar(&r.Priority, "priority", 0, "jobs of a higher `NUMBER` go first")
	c.Flags().BoolVar(&r.wait, "wait", false, "wait for its end, and exit with 0 if there is a winner")
	c.Flags().BoolVar(&r.Again, "again", false, "train all trials, also those that were trained before")
	c.RunE = func(c *cobra.Command, args []string) error {
		given := map[string]string{}
		own.VisitAll(func(f *pflag.Flag) {
			if c.Flags().Changed(f.Name) {
				given[f.Name] = f.Value.String()
			}
		})
		if _, err := cf.Load(c, args[0]); err != nil {
			return err
		}
		s, err := configs.SweepOfFlags(args[0], vary, given)
		if err != nil {
			return cli.Usage(err)
		}
		return queueSweep(c, cf, s, r)
	}
	m := maker{version}
	c.AddCommand(cli.Printing(m.sweepShow()), cli.Printing(m.sweepBest()))
	return c
}

// sweepIn is the sweep in a file; nil if it is the file of a config, or none.
func sweepIn(path string) (*configs.Sweep, error) {
	if slices.Contains(configs.Names(), path) {
		return nil, nil
	}
	data, err := osfile.Read(path, configs.MaxFile+1)
	if err != nil || !configs.IsSweep(data) { // loading it as a config says what is wrong
		return nil, nil
	}
	s, err := configs.ParseSweep(path, data)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return s, nil
}

// queueSweep submits a sweep.
func queueSweep(c *cobra.Command, cf *runs.ConfigFlags, s *configs.Sweep, r request) error {
	cfg, err := cf.Load(c, s.Config)
	if errors.Is(err, configs.ErrNotFound) {
		return configs.At(s.Pos, err)
	}
	if err != nil {
		return err
	}
	own := daemonKeys()
	for i := range s.Vary {
		if x := &s.Vary[i]; slices.Contains(own, x.Key) {
			return cli.Usagef("%s: %s: trainer up has its own, so all trials would be the same: leave it out", x.Pos, x.Key)
		}
	}
	if err := root(s); err != nil {
		return err
	}
	yaml, err := s.YAML()
	if err != nil {
		return err
	}
	r.Sweep = string(yaml)
	return varied(r.queue(c, cfg, cfg), s)
}

// varied is an error about the config of a trial with the places at which its values were given.
func varied(err error, s *configs.Sweep) error {
	if err == nil {
		return nil
	}
	given := map[string]string{"checkpoint.best": "--metric " + s.Metric}
	if s.Pos != (configs.Pos{}) {
		given["checkpoint.best"] = fmt.Sprintf("%s: sweep.metric", s.Pos)
	}
	for i := range s.Vary {
		given[s.Vary[i].Key] = s.Vary[i].Pos.String()
	}
	words := err.Error()
	for key, place := range given {
		set := regexp.MustCompile("(?m)--set " + regexp.QuoteMeta(key) + "=.*?: " + regexp.QuoteMeta(key) + ":")
		words = set.ReplaceAllLiteralString(words, place+": "+key+":")
	}
	if words == err.Error() {
		return err
	}
	return placed{err, words}
}

// root makes the paths among the values of a sweep absolute: a daemon works in another folder.
func root(s *configs.Sweep) error {
	for i := range s.Vary {
		d := &s.Vary[i]
		if !strings.HasPrefix(d.Key, "data.") {
			continue
		}
		for j, v := range d.Values {
			if _, err := os.Stat(v); err != nil || filepath.IsAbs(v) {
				continue
			}
			path, err := filepath.Abs(v)
			if err != nil {
				return err
			}
			d.Values[j] = path
		}
	}
	return nil
}

// announcedSweep says which sweep was queued.
func announcedSweep(j *queue.Job) string {
	line := fmt.Sprintf("sweep %d in %s", j.ID, shortPath(j.Dir))
	s, err := configs.ParseSweep("sweep", []byte(j.Sweep.Text))
	if err != nil {
		return line
	}
	most, whole := sweep.Most(s, []sweep.Length{{Steps: j.Sweep.Steps, Boundary: j.Sweep.Boundary}})
	begins := fmt.Sprintf("sweep %d", j.ID)
	if n := len(j.Sweep.Submitted); n > 1 {
		begins += " goes on"
		before, err := configs.ParseSweep("sweep", []byte(j.Sweep.Submitted[n-2].Text))
		if err == nil && s.Total() > before.Total() {
			begins += fmt.Sprintf(" with %s more", units.Thousands(s.Total()-before.Total()))
		}
	}
	takes := units.Count(whole, "step")
	if most < whole {
		takes = fmt.Sprintf("at most %.0f%% of their %s steps", math.Ceil(100*float64(most)/float64(whole)), units.Thousands(whole))
	}
	if s.Halving && j.Sweep.Boundary >= j.Sweep.Steps {
		takes += fmt.Sprintf(" (none ends sooner: values come out at boundaries, and train.boundary gives one, at step %d)", j.Sweep.Steps)
	}
	return fmt.Sprintf("%s: %s in %s, %s, about %s on one device, up to %s of the disk",
		begins, units.Count(s.Total(), "trial"), shortPath(j.Dir), takes, units.Seconds(j.Predicted.Seconds()), units.Bytes(j.Sweep.Disk))
}

// trials says how many trials of a sweep are over.
func trials(list []jobs.View, of *jobs.View) string {
	s, err := configs.ParseSweep("sweep", []byte(of.Sweep.Text))
	if err != nil {
		return ""
	}
	over := 0
	for i := range list {
		if t := list[i].Trial; t != nil && t.Sweep == of.ID && list[i].State.Over() {
			over++
		}
	}
	return fmt.Sprintf("%d/%d trials", over, s.Total())
}

// trialLogs prints the logs of a sweep's trials, each below its number.
func trialLogs(c *cobra.Command, d desk, id int) error {
	st, err := standing(c.Context(), d, id)
	if err != nil {
		return err
	}
	for i, v := range st.Trials {
		if v == nil {
			continue
		}
		fmt.Fprintf(c.OutOrStdout(), "trial %d, job %d:\n", i+1, v.ID)
		reader := jobs.NewLogReader(v.Dir)
		if err := errors.Join(reader.Copy(c.OutOrStdout()), reader.Close()); err != nil {
			return err
		}
	}
	return nil
}

func standing(ctx context.Context, d desk, id int) (*jobs.Standing, error) {
	list, _, err := d.Views(ctx)
	if err != nil {
		return nil, err
	}
	return jobs.StandingOf(list, id)
}

// ofSweep makes a subcommand that is about one sweep.
func (m maker) ofSweep(c *cobra.Command, run func(c *cobra.Command, d desk, id int, st *jobs.Standing) error) *cobra.Command {
	return m.of(c, func(c *cobra.Command, d desk, id int) error {
		st, err := standing(c.Context(), d, id)
		if err != nil {
			return err
		}
		return run(c, d, id, st)
	})
}

func (m maker) sweepShow() *cobra.Command {
	var asJSON bool
	var picture string
	c := &cobra.Command{Use: "show", Short: "List the trials of a sweep, the best first", Example: "  trainer sweep show 9\n  trainer sweep show 9 --svg trials.svg"}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of objects")
	c.Flags().StringVar(&picture, "svg", "", "also draw the trials into `FILE`, an axis for each key and a line for each trial")
	return m.ofSweep(c, func(c *cobra.Command, _ desk, id int, st *jobs.Standing) error {
		if picture != "" {
			if err := draw(picture, id, st); err != nil {
				return fmt.Errorf("--svg %w", err)
			}
		}
		if asJSON {
			records := []trialRecord{}
			for _, i := range st.Order() {
				records = append(records, trialRecordOf(st, i))
			}
			return printJSON(c.OutOrStdout(), records)
		}
		return printTrials(c.OutOrStdout(), st, console.Room(c.OutOrStdout()))
	})
}

// draw writes a picture of a sweep.
func draw(path string, id int, st *jobs.Standing) error {
	if err := rundir.CheckOutput(path, ""); err != nil {
		return err
	}
	title := fmt.Sprintf("sweep %d: %s", id, units.Count(len(st.Trials), "trial"))
	if begun := len(st.Order()); begun < len(st.Trials) {
		title = fmt.Sprintf("sweep %d: %d of %d trials have begun", id, begun, len(st.Trials))
	}
	p := parallel(st, title)
	return rundir.WriteOutput(path, func(w io.Writer) error {
		_, err := io.WriteString(w, p.String())
		return err
	})
}

// trialRecord is a trial as --json prints it.
type trialRecord struct {
	Trial    int               `json:"trial"`
	Job      int               `json:"job"`
	State    string            `json:"state"`
	As       int               `json:"as,omitempty"` // the job whose run it is: that was trained before
	Run      string            `json:"run"`
	Step     int               `json:"step"`
	Steps    int               `json:"steps"`
	Metric   string            `json:"metric"`
	Value    *float64          `json:"value"`  // the newest; null: none, or not finite
	Values   []*float64        `json:"values"` // at each rung that it has reached
	Settings map[string]string `json:"settings"`
	Where    string            `json:"where,omitempty"`
}

func trialRecordOf(st *jobs.Standing, i int) trialRecord {
	v := st.Trials[i]
	r := trialRecord{
		Trial: i + 1, Job: v.ID, State: stateOf(v), As: v.As, Run: v.Dir, Step: v.Step, Steps: v.Steps, Metric: st.Sweep.Metric,
		Value: st.Value(i), Values: append([]*float64{}, v.Trial.Values...), Settings: map[string]string{}, Where: v.Where,
	}
	for _, s := range v.Trial.Settings {
		r.Settings[s.Key] = s.Value
	}
	return r
}

// stateOf is the state of a trial: that of its job, but for one that others were better than.
func stateOf(v *jobs.View) string {
	if v.Trial.Out {
		return string(sweep.Out)
	}
	return string(v.State)
}

// printTrials prints a table in lines of so many columns.
func printTrials(out io.Writer, st *jobs.Standing, width int) error {
	head := []string{"TRIAL", "STATE", "STEP", strings.ToUpper(st.Sweep.Metric)}
	for i := range st.Sweep.Vary {
		head = append(head, st.Sweep.Vary[i].Key)
	}
	rows := [][]string{head}
	for _, i := range st.Order() {
		v := st.Trials[i]
		row := []string{strconv.Itoa(i + 1), stateOf(v), steps(v), metric(st.Sweep.Metric, st.Value(i))}
		for _, s := range v.Trial.Settings {
			row = append(row, shortValue(s.Value))
		}
		rows = append(rows, row)
	}
	l := columns.Layout{Drop: []int{2, 1}, Width: width}
	for i := range head[4:] {
		l.Cut = append(l.Cut, 4+i)
	}
	if _, err := io.WriteString(out, columns.Format(rows, l)); err != nil {
		return err
	}
	return printFailures(console.NewProse(out), st)
}

// printFailures says why trials failed, and once what several did of.
func printFailures(out io.Writer, st *jobs.Standing) (err error) {
	var reasons []string
	failed := map[string][]string{}
	for i, v := range st.Trials {
		if v == nil || v.State != queue.Failed {
			continue
		}
		if failed[v.Where] == nil {
			reasons = append(reasons, v.Where)
		}
		failed[v.Where] = append(failed[v.Where], strconv.Itoa(i+1))
	}
	for _, reason := range reasons {
		which := "trial " + failed[reason][0]
		if len(failed[reason]) > 1 {
			which = "trials " + strings.Join(failed[reason], ", ")
		}
		if _, werr := fmt.Fprintf(out, "%s failed: %s\n", which, inALine(reason)); werr != nil {
			err = werr
		}
	}
	return err
}

// shortValue is a value as a table shows it: a list without spaces, and a number with few digits.
func shortValue(v string) string {
	if x, err := strconv.ParseFloat(v, 64); err == nil && x != math.Trunc(x) {
		return units.Number(x)
	}
	return strings.ReplaceAll(v, ", ", ",")
}

func (m maker) sweepBest() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "best", Short: "Print the config of a sweep's best trial so far, and name its run folder",
		Example: "  trainer sweep best 9 --out best.yaml",
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write the config to `FILE` instead, which must not be there")
	return m.ofSweep(c, func(c *cobra.Command, d desk, id int, st *jobs.Standing) error {
		best := st.Decision.Best
		if best == 0 {
			return fmt.Errorf("no trial of sweep %d has a finite %s yet", id, st.Sweep.Metric)
		}
		v := st.Trials[best-1]
		yaml, err := d.Config(c.Context(), v.ID)
		if err != nil {
			return err
		}
		about := bestOf(st)
		if _, err := os.Stat(rundir.CheckpointPath(v.Dir)); errors.Is(err, os.ErrNotExist) {
			about += "; its checkpoint is deleted: trainer submit of this config trains it again"
		}
		if out == "" {
			cli.Tell(c, c.ErrOrStderr(), about)
			_, err := io.WriteString(c.OutOrStdout(), yaml)
			return err
		}
		if err := writeNew(out, yaml); err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), about)
		return nil
	})
}

// bestOf names the best trial of a sweep that has one.
func bestOf(st *jobs.Standing) string {
	best := st.Decision.Best
	v := st.Trials[best-1]
	return fmt.Sprintf("trial %d in %s: %s %s at step %d of %d", best, shortPath(v.Dir), st.Sweep.Metric, metric(st.Sweep.Metric, st.Value(best-1)), v.Step, v.Steps)
}

// writeNew writes a file that is not there yet, or leaves none.
func writeNew(path, content string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return cli.Usagef("--out %s: the file is there: name another", path)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
