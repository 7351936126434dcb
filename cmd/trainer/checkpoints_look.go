package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
)

func inspectCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "inspect RUN [ID]", Short: "Show a checkpoint's tensors and their statistics",
		Long: "Show what a checkpoint holds: for each tensor its type, shape and role, and the range, mean and standard\n" +
			"deviation of its finite elements, how many are zero, and how many are NaN or infinite.",
		Example: "  trainer checkpoints inspect runs/digits\n  trainer checkpoints inspect runs/digits 3", Args: oneOrTwoArgs,
	}
	w := &berth.Weights{}
	c.Flags().BoolVar(&w.Best, "best", false, "the best checkpoint (default: the newest)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if len(args) == 2 {
			if w.Best {
				return usageError{errors.New("--best and an ID exclude each other; give one")}
			}
			if w.ID, err = checkpointID(args[0], args[1]); err != nil {
				return err
			}
		}
		db, err := checkpointsOf(args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		s, err := pick(c, db, w)
		if err != nil {
			return err
		}
		m := &s.Manifest
		fmt.Fprintf(c.OutOrStdout(), "checkpoint %d: step %d, epoch %d, %d tensors, %s\n", m.ID, m.Step, m.Epoch, m.Count, bytesText(m.Bytes))
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "TENSOR\tTYPE\tROLE\tMIN\tMAX\tMEAN\tSTD\tZERO\tNAN\tINF")
		for _, x := range s.Tensors() {
			st, err := s.Stats(c.Context(), x.Name)
			if err != nil {
				return errors.Join(t.Flush(), err)
			}
			fmt.Fprintf(t, "%s\t%v\t%s\t%.4g\t%.4g\t%.4g\t%.4g\t%d\t%d\t%d\n", x.Name, x.Meta, x.Role, st.Min, st.Max, st.Mean, st.Std, st.Zero, st.NaN, st.Inf)
		}
		return t.Flush()
	}
	return c
}

// pick finds the checkpoint that is meant, and says what had to be skipped.
func pick(c *cobra.Command, db *checkpoint.DB, w *berth.Weights) (*checkpoint.Snapshot, error) {
	if c.Flags().Changed("id") && w.ID == 0 {
		return nil, usageError{errors.New("--id 0: IDs begin at 1; see trainer checkpoints ls")}
	}
	s, skipped, err := berth.PickCheckpoint(c.Context(), db, *w)
	if err == nil {
		tellSkipped(c, skipped)
	}
	return s, err
}

// tellSkipped warns that what follows is not about the newest checkpoint.
func tellSkipped(c *cobra.Command, skipped []checkpoint.Skipped) {
	for _, s := range skipped {
		fmt.Fprintf(c.ErrOrStderr(), "skipped %v\n", s)
	}
}

// pickFlags are the flags that say which checkpoint is meant.
func pickFlags(c *cobra.Command) *berth.Weights {
	w := &berth.Weights{}
	c.Flags().Uint64Var(&w.ID, "id", 0, "the checkpoint with this ID (default: the newest)")
	c.Flags().BoolVar(&w.Best, "best", false, "the best checkpoint")
	return w
}

func diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "diff RUN A B", Short: "Say how two checkpoints of a run differ",
		Long: "List the tensors of which two checkpoints, named by their IDs, do not hold the same bits, with the number of\n" +
			"elements that differ and the largest difference, and the config keys that changed. Exits with 1 if they differ.",
		Example: "  trainer checkpoints diff runs/digits 2 3\n  trainer checkpoints diff runs/a 5 5 --with runs/b", Args: exactArgs(3),
	}
	with := c.Flags().String("with", "", "B is in this run (default: in RUN)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		a, closeA, err := loadByID(args[0], args[1])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeA()) }()
		if *with == "" {
			*with = args[0]
		}
		b, closeB, err := loadByID(*with, args[2])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeB()) }()
		ds, err := checkpoint.Diff(c.Context(), a, b)
		if err != nil {
			return err
		}
		changes := berth.ConfigChanges(a.Manifest.Config, b.Manifest.Config)
		for _, line := range changes {
			fmt.Fprintf(c.OutOrStdout(), "config: %s\n", line)
		}
		if len(ds)+len(changes) == 0 {
			fmt.Fprintln(c.OutOrStdout(), "the same")
			return nil
		}
		if err := printDiff(c.OutOrStdout(), ds); err != nil {
			return err
		}
		return fmt.Errorf("%d of %d tensors and %d config keys differ", len(ds), len(a.Manifest.Tensors), len(changes))
	}
	return c
}

func copyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "copy RUN FILE.db", Short: "Copy a run's checkpoints into a new file, while it trains, too",
		Long: "Copy the checkpoints that a run has now into a new file. The run may be training meanwhile, and goes on undisturbed.\n" +
			"What is copied is checked: a plain copy of the file could catch it half changed.",
		Example: "  trainer checkpoints copy runs/digits now.db && trainer checkpoints ls now.db\n" +
			"  mkdir now && trainer checkpoints copy runs/digits now/checkpoints.db && trainer eval now", Args: exactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := newFile(args[1]); err != nil {
				return err
			}
			n, err := checkpoint.Copy(c.Context(), fileOf(args[0]), args[1], func(s checkpoint.Skipped) { tellSkipped(c, []checkpoint.Skipped{s}) })
			switch {
			case errors.Is(err, fs.ErrExist):
				return usageError{err}
			case err != nil:
				return err
			}
			return tellCopied(c, n, args[1])
		},
	}
}

// tellCopied says how many checkpoints are in a new file.
func tellCopied(c *cobra.Command, n int, file string) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s in %s\n", many(n, "checkpoint"), file)
	return err
}

// checkpointID reads an ID.
func checkpointID(run, id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return 0, usageError{fmt.Errorf("%q is no checkpoint ID: give a whole number, see trainer checkpoints ls %s", id, run)}
	}
	return n, nil
}

// loadByID opens one checkpoint. The caller calls done.
func loadByID(run, id string) (s *checkpoint.Snapshot, done func() error, err error) {
	n, err := checkpointID(run, id)
	if err != nil {
		return nil, nil, err
	}
	db, err := checkpointsOf(run)
	if err != nil {
		return nil, nil, err
	}
	if s, err = db.Load(n); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return s, db.Close, nil
}

func printDiff(w io.Writer, ds []checkpoint.Difference) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TENSOR\tA\tB\tELEMENTS\tLARGEST DIFFERENCE")
	side := func(x *checkpoint.Tensor) string {
		if x == nil {
			return "-"
		}
		return x.Meta.String()
	}
	for _, d := range ds {
		if d.Count == 0 {
			fmt.Fprintf(t, "%s\t%s\t%s\t\t\n", d.Name, side(d.A), side(d.B))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.4g\n", d.Name, side(d.A), side(d.B), d.Count, d.Largest)
	}
	return t.Flush()
}
