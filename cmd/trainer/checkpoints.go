package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
		Short:   "List, inspect, compare, verify, copy, export and tidy up a run's checkpoints",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints export runs/digits weights.safetensors",
	}
	group(c)
	c.AddCommand(lsCommand(), inspectCommand(), diffCommand(), verifyCommand(), exportCommand(), importCommand(),
		pruneCommand(), deleteCommand(), compactCommand(), copyCommand(), repairCommand())
	for _, sub := range c.Commands() {
		if sub.Name() != "repair" {
			sub.RunE = advising(sub.RunE)
		}
	}
	return c
}

// advising adds to damage, where nothing has yet, what to do about it.
func advising(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var told repairable
		if errors.Is(err, checkpoint.ErrDamaged) && !errors.As(err, &told) {
			return repairable{err, args[0]}
		}
		return err
	}
}

// repairable is damage of a run's checkpoints, with what to do about it.
type repairable struct {
	error
	run string
}

func (r repairable) Error() string {
	return fmt.Sprintf("%v; trainer checkpoints repair %s whole.db copies what is still whole in it", r.error, r.run)
}

func (r repairable) Unwrap() error { return r.error }

// checkpointsOf opens the checkpoints of a run folder, or a file, for reading.
func checkpointsOf(path string) (*checkpoint.DB, error) {
	return openCheckpoints(path, checkpoint.Options{ReadOnly: true})
}

// changing opens the checkpoints of a run folder, or a file that exists, for
// changes.
func changing(path string) (*checkpoint.DB, error) {
	db, err := checkpointsOf(path) // which does not make a file
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return openCheckpoints(path, checkpoint.Options{Readers: checkpoint.WaitForReaders})
}

func openCheckpoints(path string, o checkpoint.Options) (*checkpoint.DB, error) {
	db, err := checkpoint.Open(fileOf(path), o)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, usageError{fmt.Errorf("%w; name a run folder, such as runs/digits, or its checkpoints.db", err)}
	}
	if errors.Is(err, checkpoint.ErrDamaged) {
		return nil, repairable{err, path}
	}
	return db, err
}

// fileOf is the checkpoint file of a run folder, or the file itself.
func fileOf(path string) string {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return berth.CheckpointPath(path)
	}
	return path
}

func lsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "ls RUN", Short: "List checkpoints",
		Long:    "List checkpoints. SIZE is all that one holds, SHARED what of it lay in the file already when it was saved.",
		Example: "  trainer checkpoints ls runs/digits", Args: exactArgs(1),
	}
	asJSON := c.Flags().Bool("json", false, "print a JSON array; damaged checkpoints have an \"error\" and nothing else but their \"id\"")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		db, err := checkpointsOf(args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		list, skipped, err := db.List()
		switch {
		case err != nil:
			return err
		case *asJSON:
			return listJSON(c.OutOrStdout(), list, skipped)
		}
		return listTable(c.OutOrStdout(), list, skipped)
	}
	return c
}

func listTable(out io.Writer, list []checkpoint.Manifest, skipped []checkpoint.Skipped) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTEP\tEPOCH\tTRAIN LOSS\tVAL LOSS\tVAL ACCURACY\tSIZE\tSHARED\tTIME\t")
	best := checkpoint.BestOf(list)
	for _, m := range list {
		mark := ""
		if m.ID == best {
			mark = "best"
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Step, m.Epoch, metric(m, "train_loss"), metric(m, "val_loss"),
			metric(m, "val_accuracy"), bytesText(m.Bytes), bytesText(m.Bytes-m.Fresh), m.Time.Local().Format(time.DateTime), mark)
	}
	for _, s := range skipped {
		fmt.Fprintf(w, "%v\n", s)
	}
	return w.Flush()
}

// listed is a checkpoint as ls --json has it.
type listed struct {
	ID      uint64             `json:"id"`
	Step    int                `json:"step"`
	Epoch   int                `json:"epoch"`
	Metrics map[string]float64 `json:"metrics"`
	Bytes   int64              `json:"bytes"`
	Shared  int64              `json:"shared_bytes"`
	Time    time.Time          `json:"time"`
	Best    bool               `json:"best"`
}

// unusable is one that could not be read; its ID is 0 where none is known.
type unusable struct {
	ID    uint64 `json:"id"`
	Error string `json:"error"`
}

func listJSON(out io.Writer, list []checkpoint.Manifest, skipped []checkpoint.Skipped) error {
	all := []any{}
	best := checkpoint.BestOf(list)
	for _, m := range list {
		if m.Metrics == nil { // saved within an epoch
			m.Metrics = map[string]float64{}
		}
		all = append(all, listed{m.ID, m.Step, m.Epoch, m.Metrics, m.Bytes, m.Bytes - m.Fresh, m.Time, m.ID == best})
	}
	for _, s := range skipped {
		all = append(all, unusable{s.ID, s.Err.Error()})
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

func repairCommand() *cobra.Command {
	return &cobra.Command{
		Use: "repair RUN FILE.db", Short: "Copy what is whole of a damaged file into a new one",
		Long:    "Copy every checkpoint that is whole into a new file, and say which are not. Those that damage hides are looked for in all of the file.\nThe run's own file is left as it is.",
		Example: "  trainer checkpoints repair runs/digits whole.db && mv whole.db runs/digits/checkpoints.db", Args: exactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := newFile(args[1]); err != nil {
				return err
			}
			n, err := checkpoint.Salvage(c.Context(), fileOf(args[0]), args[1], func(s checkpoint.Skipped) { fmt.Fprintf(c.OutOrStdout(), "left out: %v\n", s) })
			switch {
			case errors.Is(err, checkpoint.ErrDamaged):
				return fmt.Errorf("%w: begin the run anew with trainer train … --fresh", err)
			case errors.Is(err, fs.ErrExist):
				return usageError{err}
			case err != nil:
				return err
			}
			return tellCopied(c, n, args[1])
		},
	}
}

func metric(m checkpoint.Manifest, name string) string {
	if v, ok := m.Metrics[name]; ok {
		return lossText(v)
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
		Long: "Write a checkpoint's parameters and batchnorm statistics by name; the file loads as a PyTorch state_dict and with --init.\n" +
			"A file that exists is left as it is: name another, or remove it first.",
		Example: "  trainer checkpoints export runs/digits weights.safetensors", Args: exactArgs(2),
	}
	w := pickFlags(c)
	all := c.Flags().Bool("all", false, "optimizer state too")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if err := newFile(args[1]); err != nil {
			return err
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
