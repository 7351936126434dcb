package checkpoints

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/internal/units"
)

func compactCommand() *cobra.Command {
	return &cobra.Command{
		Use: "compact RUN", Short: "Make a checkpoint file as small as its contents",
		Long:    "Copy the file's contents into a new file, which then takes its place. If stopped at any moment, the old file or the new one is there, whole.",
		Example: "  trainer checkpoints compact runs/digits", Args: cli.Args(1),
		RunE: func(c *cobra.Command, args []string) error {
			return changing(args[0], func(db *checkpoint.DB) error { return compact(c, db) })
		},
	}
}

func compact(c *cobra.Command, db *checkpoint.DB) error {
	before, err := os.Stat(db.Path())
	if err != nil {
		return err
	}
	if err := db.Compact(c.Context()); err != nil {
		return err
	}
	after, err := os.Stat(db.Path())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s, now %s\n", units.Bytes(before.Size()), units.Bytes(after.Size()))
	return err
}
