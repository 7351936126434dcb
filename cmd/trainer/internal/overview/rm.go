package overview

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func rmCommand(stop *signals.Stop, reserved func(context.Context) runs.Reserved) *cobra.Command {
	c := &cobra.Command{
		Use: "rm RUN…", Short: "Delete runs",
		Long:    "Delete runs: the files that a run writes, and the folder unless it holds others. A run that trains is refused, and so is that of a queued job; then no run is deleted. On a terminal the command asks; elsewhere it needs --yes.",
		Example: "  trainer runs rm runs/digits-2 --yes", Args: cli.ArgsBetween(1, math.MaxInt),
	}
	yes := c.Flags().Bool("yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		args = once(args)
		jobOf := reserved(c.Context())
		for _, dir := range args {
			if job := jobOf(dir); job != 0 {
				return cli.Usagef("%s is the run folder of job %d, which is not over: trainer jobs cancel %d ends it", dir, job, job)
			}
			if err := refused(rundir.CheckRemove(dir)); err != nil {
				return err
			}
		}
		if !*yes {
			if sure, err := ask(c, stop, args); err != nil || !sure {
				return err
			}
		}
		for _, dir := range args {
			left, err := rundir.Remove(dir)
			if err != nil {
				return refused(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s deleted\n", columns.Printed(dir))
			if len(left) > 0 {
				fmt.Fprintf(console.NewProse(c.OutOrStdout()), "the folder stays: it holds %s, which no run wrote\n", columns.Printed(strings.Join(left, ", ")))
			}
		}
		return nil
	}
	return c
}

// once leaves out folders that are named twice.
func once(dirs []string) (list []string) {
	for _, dir := range dirs {
		if !slices.ContainsFunc(list, func(other string) bool { return rundir.SameFile(dir, other) }) {
			list = append(list, dir)
		}
	}
	return list
}

// refused words why a run is not deleted.
func refused(err error) error {
	switch {
	case errors.Is(err, rundir.ErrFolder), errors.Is(err, rundir.ErrNoRun):
		return cli.Usage(err)
	case errors.Is(err, checkpoint.ErrHeld):
		return fmt.Errorf("%w; a run that trains is not deleted", err)
	}
	return err
}

// ask asks on a terminal whether runs are to be deleted.
func ask(c *cobra.Command, stop *signals.Stop, dirs []string) (sure bool, err error) {
	if !console.IsTerminal(c.InOrStdin()) || console.Terminal(c.ErrOrStderr()) == nil {
		return false, cli.Usagef("runs rm deletes for good, and there is no terminal to ask on: give --yes")
	}
	for _, dir := range dirs {
		s := summarized{dir: dir, Summary: rundir.Summarize(dir)}
		fmt.Fprintf(c.ErrOrStderr(), "%s: %s, step %s, %s\n", columns.Printed(dir), s.Condition, s.steps(), units.Bytes(s.Bytes))
	}
	what := "it"
	if len(dirs) > 1 {
		what = "them"
	}
	fmt.Fprintf(c.ErrOrStderr(), "Delete %s? [y/N] ", what)
	stop.Asks(true)
	line, err := console.Wait(c.Context(), func() (string, error) { return bufio.NewReader(c.InOrStdin()).ReadString('\n') })
	stop.Asks(false)
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(c.ErrOrStderr())
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(c.ErrOrStderr(), "nothing is deleted")
	return false, nil
}
