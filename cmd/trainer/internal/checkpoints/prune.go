package checkpoints

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

func pruneCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "prune RUN", Short: "Delete checkpoints, and make their file smaller",
		Long: "Delete the checkpoints that no rule keeps, or only one with --checkpoint, and make the file as small as what is left. A rule that no flag gives is taken from checkpoint.keep in the run's config.\n" +
			"\n" +
			"While a checkpoint is damaged, the file keeps its size, so that repair may still find contents. Delete the damaged checkpoint to end that.",
		Example: "  trainer checkpoints prune runs/digits --last 1 --best 1\n  trainer checkpoints prune runs/digits --checkpoint 3", Args: cli.Args(1),
	}
	var k checkpoint.Keep
	c.Flags().IntVar(&k.Last, "last", 0, "keep the `N` newest, at least 1")
	c.Flags().IntVar(&k.Best, "best", 0, "keep the `N` best; 0: none")
	c.Flags().IntVar(&k.Every, "every", 0, "keep those at steps that are multiples of `N`; 0: none")
	which := runs.AddWhich(c, "delete only this checkpoint, even a damaged one")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkKeep(c.Flags(), k); err != nil {
			return err
		}
		return changing(args[0], func(db *checkpoint.DB) error {
			if which.Given() {
				return deleteOne(c, db, which)
			}
			if err := keepRest(c.Flags(), &k, db); err != nil {
				return err
			}
			n, skipped, err := db.Prune(c.Context(), k)
			runs.TellSkipped(c, skipped)
			if n > 0 || err == nil {
				fmt.Fprintf(c.OutOrStdout(), "%d deleted\n", n)
			}
			if err != nil {
				return err
			}
			return shrink(c, db)
		})
	}
	return c
}

// deleteOne deletes the checkpoint that is named.
func deleteOne(c *cobra.Command, db *checkpoint.DB, which *runs.Which) error {
	id, err := which.ID(db)
	if err != nil {
		return err
	}
	if err := db.Delete(id); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "checkpoint %d deleted\n", id)
	return shrink(c, db)
}

// shrink gives the room of deleted checkpoints back, and says by how much the file is
// smaller. Where that cannot be, later saves use the room.
func shrink(c *cobra.Command, db *checkpoint.DB) error {
	before, err := os.Stat(db.Path())
	if err != nil {
		return err
	}
	err = db.Compact(c.Context())
	full := slices.ContainsFunc(osfile.NoRoom, func(e syscall.Errno) bool { return errors.Is(err, e) })
	if full || errors.Is(err, checkpoint.ErrDamaged) {
		fmt.Fprintf(c.ErrOrStderr(), "the file keeps its size, and later saves use the room: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	after, err := os.Stat(db.Path())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s, now %s\n", units.Bytes(before.Size()), units.Bytes(after.Size()))
	return err
}

// checkKeep refuses numbers that no rule can have.
func checkKeep(flags *pflag.FlagSet, k checkpoint.Keep) error {
	switch rules := flags.Changed("last") || flags.Changed("best") || flags.Changed("every"); {
	case rules && flags.Changed("checkpoint"):
		return cli.Usagef("--checkpoint deletes that checkpoint alone; leave out --last, --best and --every")
	case flags.Changed("last") && k.Last < 1:
		return cli.Usagef("--last %d: expected a whole number of at least 1", k.Last)
	case k.Best < 0:
		return cli.Usagef("--best %d: expected a whole number of at least 0", k.Best)
	case k.Every < 0:
		return cli.Usagef("--every %d: expected a whole number of at least 0", k.Every)
	}
	return nil
}

// keepRest takes the rules that no flag gives from checkpoint.keep in the
// newest checkpoint's config.
func keepRest(flags *pflag.FlagSet, k *checkpoint.Keep, db *checkpoint.DB) error {
	if flags.Changed("last") && flags.Changed("best") && flags.Changed("every") {
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
	for name, rule := range map[string]struct {
		to   *int
		from int
	}{"last": {&k.Last, keep.Last}, "best": {&k.Best, keep.Best}, "every": {&k.Every, keep.Every}} {
		if !flags.Changed(name) {
			*rule.to = rule.from
		}
	}
	return nil
}
