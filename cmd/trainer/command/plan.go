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
	"github.com/berth-ml/berth/cmd/trainer/internal/progress"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/picture"
)

func planCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan CONFIG|NAME",
		Short: "Show how a model is split before anything runs",
		Long: "Print for each stage its device, layers, parameters, arithmetic, and bytes in and out; for each device the peak memory of a\n" +
			"step by usage, its limit, the floor, and the bytes that the limit moves per step; then the schedule. The page docs/cli.md\n" +
			"explains each column. Nothing is trained, and no run folder is made.",
		Example: "  trainer plan shakespeare --devices cpu:2 --set train.microbatches=4\n  trainer plan my.yaml --dot > plan.dot\n  trainer plan shakespeare --clusters",
		Args:    cli.Args(1),
	}
	f := planFlags{config: runs.AddConfigFlags(c)}
	c.Flags().BoolVar(&f.measure, "measure", false, "time the segments on their devices, as partition.costs: measured does")
	f.costs = addCosts(c, "--measure, or --set partition.costs=measured")
	c.Flags().StringVar(&f.svg, "svg", "", "also draw the plan and its predicted step into `FILE`")
	c.Flags().BoolVar(&f.compare, "compare", false, "print the predicted time and memory of other numbers of stages and replicas and of each schedule, also with other microbatches")
	c.Flags().BoolVar(&f.dot, "dot", false, "print the plan as a Graphviz graph")
	c.Flags().BoolVar(&f.layers, "layers", false, "print for each layer its stage, the shape of its output, its parameters, arithmetic and memory")
	c.Flags().BoolVar(&f.clusters, "clusters", false, "print the ops that each segment computes in one pass, and why others are not")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c, args[0]) }
	return c
}

// planFlags are the flags of plan.
type planFlags struct {
	config                                  *runs.ConfigFlags
	measure, compare, dot, layers, clusters bool
	costs                                   *costsFlag
	svg                                     string // path; "" if not given
}

// run plans, and prints what the flags ask for.
func (f *planFlags) run(c *cobra.Command, config string) (err error) {
	run, err := f.open(c, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	for _, text := range run.Notes() {
		fmt.Fprintln(c.ErrOrStderr(), text)
	}
	if f.svg != "" {
		if err := rundir.CheckOutput(f.svg, run.Reads()...); err != nil {
			return fmt.Errorf("--svg %w", err)
		}
		if err := drawPlan(c.Context(), f.svg, run); err != nil {
			return err
		}
	}
	switch out := c.OutOrStdout(); {
	case f.dot:
		fmt.Fprintln(out, run.Plan.DOT())
	case f.layers:
		_, err := io.WriteString(out, run.Plan.LayerTable())
		return err
	case f.clusters:
		printClusters(out, run.Plan)
	case f.compare:
		return printComparison(c, out, run)
	default:
		return printPlan(c.Context(), out, run)
	}
	return nil
}

// open plans with a config.
func (f *planFlags) open(c *cobra.Command, config string) (*berth.Run, error) {
	if given := f.views(); len(given) > 1 {
		return nil, cli.Usagef("%s exclude each other; give one", strings.Join(given, " and "))
	}
	cfg, err := f.config.Load(c, config)
	if err != nil {
		return nil, err
	}
	if f.measure {
		cfg.Partition.Costs = configs.CostsMeasured
	}
	if err := f.costs.check(cfg); err != nil {
		return nil, err
	}
	var measuring progress.Share
	done := progress.WaitFor(c.Context(), c.ErrOrStderr(), "planning", &measuring)
	defer done()
	return berth.OpenWith(c.Context(), cfg, berth.OpenOptions{Costs: f.costs.path, Measuring: measuring.Set})
}

// printPlan prints the stages, the memory of the devices, the schedule, and the
// time of a step.
func printPlan(ctx context.Context, w io.Writer, run *berth.Run) error {
	s, err := run.Schedule()
	if err != nil {
		return err
	}
	p, err := run.StepTime(ctx)
	if err != nil {
		return err
	}
	text := run.Plan.Table()
	for _, line := range run.Plan.Floors() {
		text += line + "\n"
	}
	for _, line := range run.Plan.Elsewhere() {
		text += line + "\n"
	}
	_, err = fmt.Fprintf(w, "%s\n%s%s\n%s\n", text, s.Begin(columns.Width), inFlight(s), p)
	return err
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
		_, err := io.WriteString(w, picture.SVG(run.Config.Name, run.Plan, p))
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
	done := progress.Wait(c.Context(), c.ErrOrStderr(), "comparing")
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
	_, err = io.WriteString(w, partition.CandidateTable("microbatches", cells, candidates)+below)
	return err
}

// printClusters prints each segment's clusters: the ops that a device computes
// in one pass.
func printClusters(w io.Writer, p *partition.Plan) {
	for i := range p.Segments {
		s := &p.Segments[i]
		cuts := fuse.Cut(s.First.Graph, s.First.Alias)
		fmt.Fprintf(w, "%s: %d nodes in %d kernels\n%s", s.Name, len(s.First.Graph.Nodes), cuts.Kernels(), cuts)
	}
}
