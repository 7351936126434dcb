package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// toNewFile has write make a file of checkpoints that does not exist from those of
// a run, and prints how many checkpoints it has.
func toNewFile(c *cobra.Command, run, path string, write func(from, to string) (checkpoints int, err error)) error {
	if run == "" {
		return errUnnamed
	}
	if err := checkNew(path); err != nil {
		return err
	}
	n, err := write(runs.FileOf(run), path)
	switch {
	case errors.Is(err, fs.ErrExist): // someone else made it meanwhile
		return cli.Usage(err)
	case err != nil:
		return notThere(err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s in %s\n", units.Count(n, "checkpoint"), columns.Printed(path))
	return err
}

// checkNew refuses to make a file that exists, or that cannot be made.
func checkNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return cli.Usagef("%s: %w: name a file that does not exist", path, fs.ErrExist)
	}
	return rundir.CheckOutput(path, "")
}
