package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/safetensors"
)

func importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import RUN FILE.safetensors[:PREFIX]", Short: "Add a checkpoint with weights from a safetensors file",
		Long: "Add a checkpoint that is the newest one with the tensors of the file, by name after the prefix, in place of its own.\n" +
			"Every parameter must be there, in its shape; optimizer state that the file lacks stays as it is. It has no metrics,\n" +
			"and so is not the best one, until a run that goes on from it has ended an epoch.\n" +
			"To begin a run from weights, use trainer train --init.",
		Example: "  trainer checkpoints export runs/digits w.safetensors\n  trainer checkpoints import runs/digits w.safetensors", Args: exactArgs(2),
	}
	w := pickFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		path, prefix := args[1], ""
		if _, err := os.Stat(path); err != nil {
			if i := strings.LastIndexByte(path, ':'); i >= 0 {
				path, prefix = path[:i], path[i+1:]
			}
		}
		return change(args[0], func(db *checkpoint.DB) error {
			base, err := pick(c, db, w)
			if err != nil {
				return err
			}
			id, err := berth.ImportWeights(c.Context(), db, base, path, prefix)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safetensors.ErrFormat) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "checkpoint %d: step %d, weights from %s\n", id, base.Manifest.Step, path)
			return nil
		})
	}
	return c
}

func pruneCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "prune RUN", Short: "Delete checkpoints but the newest and the best",
		Long: "Delete the checkpoints that no rule keeps. What the flags leave out is as in checkpoint.keep of the run's config.\n" +
			"The room is used by later saves; trainer checkpoints compact gives it back.",
		Example: "  trainer checkpoints prune runs/digits --last 1 --best 1", Args: exactArgs(1),
	}
	var k checkpoint.Keep
	c.Flags().IntVar(&k.Last, "last", 0, "keep this many of the newest, at least 1")
	c.Flags().IntVar(&k.Best, "best", 0, "keep this many of the best; 0 for none")
	c.Flags().IntVar(&k.Every, "every", 0, "keep those at steps that are multiples of this; 0 for none")
	c.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("last") && k.Last < 1 || k.Best < 0 || k.Every < 0 {
			return usageError{fmt.Errorf("--last %d --best %d --every %d: expected at least 1, 0 and 0", k.Last, k.Best, k.Every)}
		}
		return change(args[0], func(db *checkpoint.DB) (err error) {
			if err := keepRest(c.Flags(), &k, db); err != nil {
				return err
			}
			n, skipped, err := db.Prune(c.Context(), k)
			tellSkipped(c, skipped)
			fmt.Fprintf(c.OutOrStdout(), "%d deleted\n", n)
			return err
		})
	}
	return c
}

// keepRest takes what no flag gives from checkpoint.keep of the config that the
// newest checkpoint was made with.
func keepRest(flags *pflag.FlagSet, k *checkpoint.Keep, db *checkpoint.DB) error {
	given := func(name string) bool { return flags.Changed(name) }
	if given("last") && given("best") && given("every") {
		return nil
	}
	list, _, err := db.List()
	if err != nil || len(list) == 0 {
		return err
	}
	newest := list[len(list)-1]
	cfg, err := configs.Parse("config", newest.Config, configs.Overlay{})
	if err != nil {
		return fmt.Errorf("checkpoint.keep is not known, since the config of checkpoint %d cannot be read (%w): give --last, --best and --every", newest.ID, err)
	}
	keep := cfg.Checkpoint.Keep
	for name, v := range map[string]struct {
		to   *int
		from int
	}{"last": {&k.Last, keep.Last}, "best": {&k.Best, keep.Best}, "every": {&k.Every, keep.Every}} {
		if !given(name) {
			*v.to = v.from
		}
	}
	return nil
}

func deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete RUN ID", Short: "Delete a checkpoint, also a damaged one",
		Long: "Delete a checkpoint. While one cannot be read, no room is given up, since what it holds may still be salvaged; deleting it ends that.\n" +
			"The room is used by later saves; trainer checkpoints compact gives it back.",
		Example: "  trainer checkpoints ls runs/digits\n  trainer checkpoints delete runs/digits 3", Args: exactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := checkpointID(args[0], args[1])
			if err != nil {
				return err
			}
			return change(args[0], func(db *checkpoint.DB) error {
				if err := db.Delete(id); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "checkpoint %d deleted\n", id)
				return err
			})
		},
	}
}

func compactCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compact RUN", Short: "Make a checkpoint file as small as what it holds",
		Long:    "Write what the file holds into a new one and put that in its place. Stopped at any moment, one of the two is there, whole.",
		Example: "  trainer checkpoints compact runs/digits", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return change(args[0], func(db *checkpoint.DB) error {
				before, err := os.Stat(db.Path())
				if err != nil {
					return err
				}
				if err := db.Compact(c.Context()); err != nil {
					return err
				}
				after, err := os.Stat(db.Path())
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "%s, now %s\n", bytesText(before.Size()), bytesText(after.Size()))
				}
				return err
			})
		},
	}
}

// change opens a run's checkpoints for f to change them.
func change(run string, f func(db *checkpoint.DB) error) error {
	db, err := changing(run)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}
