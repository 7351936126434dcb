package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
)

func checkpointsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "checkpoints",
		Short:   "List, verify and export a run's checkpoints",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints export runs/digits weights.safetensors",
	}
	group(c)
	c.AddCommand(lsCommand(), verifyCommand(), exportCommand(), repairCommand())
	return c
}

// checkpointsOf opens the checkpoints of a run folder, or a file, for reading.
func checkpointsOf(path string) (*checkpoint.DB, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = berth.CheckpointPath(path)
	}
	db, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, usageError{fmt.Errorf("%w; name a run folder, such as runs/digits, or its checkpoints.db", err)}
	}
	return db, err
}

// missing makes a mistake of the user of a checkpoint that is not there.
func missing(err error) error {
	if errors.Is(err, checkpoint.ErrNotFound) {
		return usageError{err}
	}
	return err
}

func lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls RUN", Short: "List checkpoints", Example: "  trainer checkpoints ls runs/digits", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			db, err := checkpointsOf(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			list, skipped, err := db.List()
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tSTEP\tEPOCH\tVAL LOSS\tVAL ACCURACY\tSIZE\tWRITTEN\tTIME")
			for _, m := range list {
				fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Step, m.Epoch, metric(m, "val_loss"),
					metric(m, "val_accuracy"), bytesText(m.Bytes), bytesText(m.Stored), m.Time.Local().Format(time.DateTime))
			}
			for _, s := range skipped {
				fmt.Fprintf(w, "%v\n", s)
			}
			return w.Flush()
		},
	}
}

func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repair RUN FILE.db", Short: "Copy what is whole of a damaged file into a new one",
		Long:    "Copy every checkpoint that is whole into a new file, and say which are not. The run's own file is left as it is.",
		Example: "  trainer checkpoints repair runs/digits whole.db && mv whole.db runs/digits/checkpoints.db", Args: exactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			from := args[0]
			if st, err := os.Stat(from); err == nil && st.IsDir() {
				from = berth.CheckpointPath(from)
			}
			n, err := checkpoint.Salvage(c.Context(), from, args[1], func(s checkpoint.Skipped) { fmt.Fprintf(c.OutOrStdout(), "left out: %v\n", s) })
			fmt.Fprintf(c.OutOrStdout(), "%d checkpoints in %s\n", n, args[1])
			return missing(err)
		},
	}
}

func metric(m checkpoint.Manifest, name string) string {
	if v, ok := m.Metrics[name]; ok {
		return fmt.Sprintf("%.4f", v)
	}
	return "-"
}

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify RUN", Short: "Read every byte of the checkpoints and check it",
		Example: "  trainer checkpoints verify runs/digits", Args: exactArgs(1),
	}
	id := c.Flags().Uint64("id", 0, "only the checkpoint with this ID")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		db, err := checkpointsOf(args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		found := 0
		err = db.Verify(c.Context(), *id, func(s checkpoint.Skipped) {
			found++
			fmt.Fprintln(c.OutOrStdout(), s)
		})
		switch {
		case err == nil:
			fmt.Fprintln(c.OutOrStdout(), "all whole")
		case errors.Is(err, checkpoint.ErrNotFound):
			return usageError{err}
		case found > 0:
			return fmt.Errorf("%w: %d found, listed above; --resume goes on from the newest whole checkpoint", checkpoint.ErrDamaged, found)
		}
		return err
	}
	return c
}

func exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export RUN FILE.safetensors", Short: "Write a checkpoint's weights as safetensors",
		Long:    "Write a checkpoint's parameters and batchnorm statistics by name; the file loads as a PyTorch state_dict and with --init.",
		Example: "  trainer checkpoints export runs/digits weights.safetensors", Args: exactArgs(2),
	}
	id := c.Flags().Uint64("id", 0, "the checkpoint with this ID (default: the newest)")
	best := c.Flags().Bool("best", false, "the best checkpoint")
	all := c.Flags().Bool("all", false, "optimizer state too")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		db, err := checkpointsOf(args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		s, err := berth.PickCheckpoint(c.Context(), db, berth.Weights{ID: *id, Best: *best})
		if err != nil {
			return missing(err)
		}
		roles := []string{graph.Parameter.String(), graph.Statistic.String()}
		if *all {
			roles = nil
		}
		if err := db.Export(s.Manifest.ID, args[1], roles...); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "checkpoint %d, step %d: %s\n", s.Manifest.ID, s.Manifest.Step, args[1])
		return nil
	}
	return c
}
