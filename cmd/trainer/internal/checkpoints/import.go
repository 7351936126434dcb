package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/internal/columns"
)

func importCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "import RUN FILE.safetensors[:PREFIX]", Short: "Add a checkpoint with weights from a safetensors file",
		Long: "Add a checkpoint: the newest one (or --id, --best) with its tensors replaced by the file's, found by PREFIX and name.\n" +
			"The file must have every parameter, in its shape. Optimizer state that it lacks stays as it is.\n" +
			"The new checkpoint has no metrics, and so is never the best: a run that goes on from it saves them at its next boundary.\n" +
			"To begin a run from weights, use trainer train --init.",
		Example: "  trainer checkpoints export runs/digits w.safetensors\n  trainer checkpoints import runs/digits w.safetensors", Args: cli.Args(2),
	}
	w := addPickFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		path, prefix := splitPrefix(args[1])
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return cli.Usagef("there is no file %q: name a safetensors file, such as trainer checkpoints export makes", path)
		}
		return changing(args[0], func(db *checkpoint.DB) error {
			base, err := pick(c, db, w)
			if err != nil {
				return err
			}
			id, err := runstate.Import(c.Context(), db, base, path, prefix)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safetensors.ErrFormat) || errors.Is(err, safetensors.ErrFinite) {
				return cli.Usage(err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "checkpoint %d: step %d, weights from %s\n", id, base.Manifest.Step, columns.Printed(path))
			return err
		})
	}
	return c
}

// splitPrefix splits FILE[:PREFIX]. A file whose own name has a colon is found
// first.
func splitPrefix(arg string) (path, prefix string) {
	if _, err := os.Stat(arg); err == nil {
		return arg, ""
	}
	if i := strings.LastIndexByte(arg, ':'); i >= 0 {
		return arg[:i], arg[i+1:]
	}
	return arg, ""
}
