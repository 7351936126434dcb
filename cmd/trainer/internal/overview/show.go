package overview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func showCommand(resting func(context.Context) ([]Resting, error)) *cobra.Command {
	c := &cobra.Command{
		Use: "show RUN", Short: "Show how far a run came, its metrics and its size",
		Long:    "Show a run: its state, steps and epochs, the metrics of its newest boundary, its best value, the result of its test part and its size. It may train meanwhile.",
		Example: "  trainer runs show runs/digits", Args: cli.Args(1),
	}
	asJSON := c.Flags().Bool("json", false, "print a JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		list, err := summarize(args, told(c, resting))
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), list[0].record())
		}
		out := c.OutOrStdout()
		_, err = io.WriteString(out, shown(list[0], time.Now(), console.Room(out)))
		return err
	}
	return c
}

// shown is a run as show prints it, in lines of width characters.
func shown(s summarized, now time.Time, width int) string {
	rows := [][]string{{"run", s.dir}, {"state", string(s.condition())}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if s.Config != nil {
		add("config", s.Config.Name)
	}
	add("steps", s.steps())
	add("epochs", s.epochs())
	if s.Measured {
		at := fmt.Sprintf("step %d", s.Last.Step)
		if !s.Last.Time.IsZero() {
			at += s.Last.Time.Local().Format(", " + time.DateTime)
		}
		add("newest metrics", at)
	}
	for _, name := range metricNames([]summarized{s}, summarized.metrics) {
		add("  "+name, value(name, s.metrics()[name]))
	}
	if s.best() != "" {
		best := fmt.Sprintf("%s at step %d", s.best(), s.Best.Step)
		if s.BestID != 0 {
			best += fmt.Sprintf(", checkpoint %d", s.BestID)
		}
		add("best", best)
	}
	if s.Test != nil {
		add("test part", fmt.Sprintf("%s, with the weights of step %d", units.Count(s.Test.Samples, "sample"), s.Test.Step))
		for _, name := range metricNames([]summarized{s}, summarized.tests) {
			add("  "+name, value(name, s.tests()[name]))
		}
	}
	add("checkpoints", fmt.Sprint(s.Checkpoints))
	add("size", units.Bytes(s.Bytes))
	add("changed", fmt.Sprintf("%s (%s)", s.Changed.Local().Format(time.DateTime), ago(s.Changed, now)))
	if s.Problem != nil {
		add("problem", s.Problem.Error())
	}
	if next := s.next(); next != "" {
		add("next", next)
	}
	return columns.Format(rows, columns.Layout{Cut: []int{1, 0}, Prose: []int{1}, Width: width})
}

// next is the command that most want next.
func (s summarized) next() string {
	switch s.condition() {
	case rundir.Stopped, rundir.Failed:
		if s.Newest != nil {
			return "trainer resume " + s.dir
		}
		return "trainer train CONFIG --fresh --run " + s.dir
	case rundir.Completed:
		return "trainer eval " + s.dir
	case paused:
		return fmt.Sprintf("trainer jobs resume %d", s.rests.Job)
	case waits, queued:
		return fmt.Sprintf("trainer jobs show %d", s.rests.Job)
	}
	if errors.Is(s.Problem, checkpoint.ErrDamaged) {
		return fmt.Sprintf("trainer checkpoints repair %s whole.db", s.dir)
	}
	return ""
}
