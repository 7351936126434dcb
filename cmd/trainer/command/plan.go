package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/picture"
)

func planCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:     "plan CONFIG|NAME",
		Short:   "Show how a model is split before anything runs",
		Long:    "Print how a model is split: the stages with their devices and layers, the peak memory of each device by usage, and the schedule. Nothing is trained, and no run folder is made. docs/cli.md explains each column.",
		Example: "  trainer plan shakespeare --devices cpu:2 --set train.microbatches=4\n  trainer plan my.yaml --dot > plan.dot\n  trainer plan shakespeare --clusters",
		Args:    cli.Args(1),
	}
	f := planFlags{config: runs.AddConfigFlags(c)}
	c.Flags().BoolVar(&f.byArithmetic, "by-arithmetic", false, "time nothing on the devices: predict from arithmetic and bytes")
	f.costs = addCosts(c, "")
	c.Flags().IntVar(&f.ranks, "ranks", 0, "plan as `N` processes do that mpirun or srun has started, each with the config's devices")
	c.Flags().Var(&f.link, "link", "with --ranks: `LATENCY,RATE` of what processes send each other (default "+linkText(partition.DefaultLink)+")")
	c.Flags().StringVar(&f.svg, "svg", "", "also draw the plan and its predicted step into `FILE`")
	c.Flags().BoolVar(&f.compare, "compare", false, "print the predicted time and memory of other splits and schedules")
	c.Flags().BoolVar(&f.dot, "dot", false, "print the plan as a Graphviz graph")
	c.Flags().BoolVar(&f.layers, "layers", false, "print a row for each layer instead")
	c.Flags().BoolVar(&f.clusters, "clusters", false, "print the ops that each segment computes in one pass, and why others compute alone")
	c.RunE = func(c *cobra.Command, args []string) error {
		f.all = training{stop: stop}
		return f.all.together(c, func() error { return f.run(c, args[0]) })
	}
	return c
}

// planFlags are the flags of plan.
type planFlags struct {
	config                         *runs.ConfigFlags
	byArithmetic                   bool
	compare, dot, layers, clusters bool
	costs                          *costsFlag
	svg                            string // path; "" if not given
	ranks                          int    // as so many processes would; 0: as there are
	link                           linkFlag
	all                            training          // has the processes that a launcher has started
	executables                    berth.Executables // foretold before the steps were timed, which compiles some
	timing                         berth.StepTiming  // of the plan
}

// run plans, and prints what the flags ask for.
func (f *planFlags) run(c *cobra.Command, config string) (err error) {
	run, err := f.open(c, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if f.all.quiet { // rank 0 prints
		return nil
	}
	for _, text := range run.Notes() {
		fmt.Fprintln(c.ErrOrStderr(), text)
	}
	if f.timing.Took > 0 {
		if text := queued.BesideTiming(c.Context(), build.Revision()); text != "" {
			cli.Tell(c, c.ErrOrStderr(), text)
		}
	}
	if f.timing.Untimed != "" {
		fmt.Fprintln(c.ErrOrStderr(), f.timing.Untimed)
	}
	if f.svg != "" {
		if err := rundir.CheckOutput(f.svg, "", run.Reads()...); err != nil {
			return fmt.Errorf("--svg %w", err)
		}
		if err := drawPlan(c.Context(), f.svg, run); err != nil {
			return err
		}
	}
	switch out := console.NewProse(c.OutOrStdout()); {
	case f.dot:
		fmt.Fprintln(c.OutOrStdout(), run.Plan().DOT())
	case f.layers:
		_, err := io.WriteString(out, run.Plan().LayerTable(console.Room(out)))
		return err
	case f.clusters:
		list, err := run.Clusters()
		if err != nil {
			return err
		}
		for _, x := range list {
			fmt.Fprint(out, x)
		}
	case f.compare:
		return printComparison(c, out, run)
	default:
		return f.print(c.Context(), out, run)
	}
	return nil
}

// open plans with a config, and times what a step consists of where the plan's time is asked for.
func (f *planFlags) open(c *cobra.Command, config string) (*berth.Run, error) {
	cfg, err := f.load(c, config)
	if err = f.all.agree(c.Context(), "its config", err); err != nil {
		return nil, err
	}
	var measuring phase.Share
	if !f.all.quiet {
		defer phase.WaitFor(c.Context(), c.ErrOrStderr(), "planning", &measuring)()
	}
	run, err := berth.Open(c.Context(), cfg, berth.OpenOptions{Costs: f.costs.path, Measuring: measuring.Set, Ranks: f.all.ranks, AsRanks: f.ranks, Link: f.link.Link})
	if err != nil {
		return nil, err
	}
	if f.views() == nil && f.ranks == 0 && f.all.ranks == nil {
		f.executables, err = run.Executables(c.Context())
	}
	if err == nil && f.times() {
		f.timing, err = run.TimeSteps(c.Context())
	}
	if err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return run, nil
}

// times reports whether the time of a step is printed or drawn, and may be measured.
func (f *planFlags) times() bool { return !f.byArithmetic && (f.views() == nil || f.svg != "") }

// load reads the config, and refuses flags that do not go together.
func (f *planFlags) load(c *cobra.Command, config string) (*configs.Config, error) {
	if given := f.views(); len(given) > 1 {
		return nil, cli.Usagef("%s exclude each other; give one", strings.Join(given, " and "))
	}
	switch {
	case f.all.ranks != nil && f.ranks > 0:
		return nil, cli.Usagef("--ranks plans for processes that there are not, and mpirun or srun has started %d: leave --ranks out, or start one process", f.all.ranks.Size())
	case c.Flags().Changed("ranks") && f.ranks < 1:
		return nil, cli.Usagef("--ranks %d: give the number of processes, such as 4", f.ranks)
	case f.ranks > partition.FewRanks && f.svg != "":
		return nil, cli.Usagef("--svg draws at most %d ranks; give fewer --ranks, or leave --svg out", partition.FewRanks)
	case f.compare && (f.ranks > 0 || f.all.ranks != nil), f.clusters && (f.ranks > 0 || f.all.ranks != nil):
		return nil, cli.Usagef("--compare and --clusters are of one process: leave them out, or --ranks")
	case f.ranks == 0 && f.all.ranks == nil && f.link.Link != (partition.Link{}):
		return nil, cli.Usagef("--link has a meaning only with --ranks; give --ranks too, or leave --link out")
	}
	cfg, err := f.config.Load(c, config)
	if err != nil {
		return nil, err
	}
	if f.byArithmetic && f.costs.path != "" {
		return nil, cli.Usagef("--costs %s would not be read: --by-arithmetic times nothing; leave one of the two out", f.costs.path)
	}
	if f.byArithmetic {
		cfg.Partition.Costs = configs.CostsFlops
	}
	if f.times() {
		return cfg, nil
	}
	return cfg, f.costs.check(cfg)
}

// print prints the stages, the memory of the devices, the schedule, and the
// time of a step; of ranks, what they send and how they wait.
func (f *planFlags) print(ctx context.Context, w io.Writer, run *berth.Run) error {
	s, err := run.Schedule()
	if err != nil {
		return err
	}
	p, err := run.StepTime(ctx)
	if err != nil {
		return err
	}
	width := console.Room(w)
	text := run.Plan().Table(width)
	floors, err := run.Plan().Floors(stop.Of(ctx))
	if err != nil {
		return err
	}
	for _, line := range floors {
		text += line + "\n"
	}
	for _, line := range run.Plan().Loops() {
		text += line + "\n"
	}
	for _, line := range run.Plan().Elsewhere() {
		text += line + "\n"
	}
	buckets, err := bucketTable(ctx, run, width)
	if err != nil {
		return err
	}
	text += buckets
	text = fmt.Sprintf("%s\n%s%s\n%s\n", text, fewRows(s.Begin(min(width, columns.Width))), inFlight(s), p)
	if p.Moving.Copies > 0 {
		text += p.Moving.String() + "\n"
	}
	if like := run.StepsLike(p); like != "" {
		text += like + "\n"
	}
	if t := f.timing.Took; t > 0 {
		text += fmt.Sprintf("measuring took %s\n", units.Seconds(t.Seconds()))
	}
	if p.Ranks != nil {
		_, err = fmt.Fprintf(w, "%s\n%s%s", text, partition.RankTable(p, width), f.rankNotes(run, p))
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", text, executablesLine(f.executables))
	return err
}

// mostRows is the most devices whose rows of the schedule are printed.
const mostRows = 16

// fewRows is a schedule without the rows of many devices.
func fewRows(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if more := len(lines) - 1 - mostRows; more > 1 { // the first has the name
		return strings.Join(lines[:mostRows+1], "") + fmt.Sprintf("… and %s more\n", units.Thousands(more-1))
	}
	return text
}

// bucketTable has a line for each bucket of samples with different lengths; "" if all have
// one shape.
func bucketTable(ctx context.Context, run *berth.Run, width int) (string, error) {
	list := run.Buckets()
	if list == nil {
		return "", nil
	}
	rows := [][]string{{"tokens", "samples", "steps of an epoch", "time", "peak"}}
	seconds, steps := 0.0, 0
	for _, b := range list {
		row := []string{fmt.Sprint(b.Positions), fmt.Sprint(b.Samples), fmt.Sprint(b.Steps), "-", "-"}
		if b.Plan != nil {
			p, err := b.Plan.Predict(func() error { return context.Cause(ctx) })
			if err != nil {
				return "", err
			}
			seconds, steps = seconds+p.Seconds*float64(b.Steps), steps+b.Steps
			peak := int64(0)
			for _, f := range b.Plan.Memory {
				peak = max(peak, f.Peak)
			}
			row[3], row[4] = units.Seconds(p.Seconds), units.Bytes(peak)
		}
		rows = append(rows, row)
	}
	return fmt.Sprintf("\n%sthe other tables are of a step with the most tokens; a step takes %s in the mean of an epoch\n",
		columns.Format(rows, columns.Layout{Right: []int{0, 1, 2, 3, 4}, Width: width}), units.Seconds(seconds/float64(max(1, steps)))), nil
}

// executablesLine is a line about the executables that training takes.
func executablesLine(x berth.Executables) string {
	return fmt.Sprintf("executables: %d (%d to compile, %d on the disk, %d equal to one before)", x.Compiled+x.Disk+x.Memory, x.Compiled, x.Disk, x.Memory)
}

// inFlight is a line about the activations in memory; "" where a step has one
// microbatch.
func inFlight(s schedule.Schedule) string {
	if s.Microbatches == 1 || !s.Has(schedule.Backward) {
		return ""
	}
	last := schedule.Backward
	if s.Has(schedule.Weights) {
		last = schedule.Weights
	}
	var counts []string
	for stage := range s.Stages {
		counts = append(counts, fmt.Sprint(s.InFlight(stage, last)))
	}
	return fmt.Sprintf("microbatches in memory, by stage: %s\n", strings.Join(counts, " "))
}

// drawPlan draws the plan into a file.
func drawPlan(ctx context.Context, path string, run *berth.Run) error {
	p, err := run.StepTime(ctx)
	if err != nil {
		return err
	}
	return rundir.WriteOutput(path, func(w io.Writer) error {
		_, err := io.WriteString(w, picture.SVG(run.Config.Name, run.Plan(), p))
		return err
	})
}

// views are the given flags that ask for something else than the plan's tables.
func (f *planFlags) views() (given []string) {
	if f.dot {
		given = append(given, "--dot")
	}
	if f.layers {
		given = append(given, "--layers")
	}
	if f.clusters {
		given = append(given, "--clusters")
	}
	if f.compare {
		given = append(given, "--compare")
	}
	return given
}

// printComparison prints the candidates for a run.
func printComparison(c *cobra.Command, w io.Writer, run *berth.Run) error {
	done := phase.Wait(c.Context(), c.ErrOrStderr(), "comparing")
	list, err := run.Compare(c.Context())
	done()
	if err != nil {
		return err
	}
	var cells []string
	var candidates []partition.Candidate
	below := ""
	for _, x := range list {
		cell := fmt.Sprint(x.Microbatches)
		if x.OtherWeights {
			cell += "*"
			below = "* with other microbatches than the config's, and so other weights\n"
		}
		cells, candidates = append(cells, cell), append(candidates, x.Candidate)
	}
	_, err = io.WriteString(w, partition.CandidateTable("microbatches", cells, candidates, console.Room(w))+below)
	return err
}
