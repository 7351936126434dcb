package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/osfile"
)

// Which is a checkpoint as a user names it: by its ID, such as 3, or by its step, such as
// step:90. The zero value names none.
type Which struct {
	text string
	n    uint64
	step bool
}

// stepPrefix begins the name of a checkpoint by its step.
const stepPrefix = "step:"

// Set reads the name of a checkpoint.
func (w *Which) Set(text string) error {
	number, step := strings.CutPrefix(text, stepPrefix)
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n == 0 && !step {
		return errors.New("not the name of a checkpoint")
	}
	*w = Which{text, n, step}
	return nil
}

// String is the name as it was given.
func (w *Which) String() string { return w.text }

// Type is the name of the value in help.
func (*Which) Type() string { return "N|step:N" }

// Expected words the values.
func (*Which) Expected() string {
	return "the ID of a checkpoint, such as 3, or its step, such as step:90"
}

// Given reports whether a checkpoint is named.
func (w *Which) Given() bool { return w.text != "" }

// AddWhich gives c the flag --checkpoint. does says what c does with that checkpoint.
func AddWhich(c *cobra.Command, does string) *Which {
	w := &Which{}
	c.Flags().Var(w, "checkpoint", does)
	return w
}

// ID is the ID of the checkpoint in db that is named; 0 if none is. A number that is no ID
// may be a step. Whether a checkpoint has the ID that is returned is not checked.
func (w *Which) ID(db *checkpoint.DB) (uint64, error) {
	if !w.Given() {
		return 0, nil
	}
	list, skipped, err := db.List()
	if err != nil {
		return 0, err
	}
	of := uint64(0) // the newest checkpoint of that step
	for _, m := range list {
		if m.ID == w.n && !w.step {
			return w.n, nil
		}
		if uint64(m.Step) == w.n {
			of = m.ID
		}
	}
	for _, s := range skipped {
		if s.ID == w.n && !w.step {
			return w.n, nil
		}
	}
	switch {
	case of != 0:
		return of, nil
	case w.step:
		return 0, cli.Usagef("%s: no checkpoint is of step %d; trainer checkpoints ls %s lists them", db.Path(), w.n, db.Path())
	}
	return w.n, nil
}

// IDIn is ID in a run folder, or in a file of checkpoints.
func (w *Which) IDIn(path string) (id uint64, err error) {
	if !w.Given() {
		return 0, nil
	}
	db, err := checkpoint.Open(FileOf(path), checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return 0, cli.Usagef("%w; name a run folder, such as runs/digits", err)
	}
	if err != nil {
		return 0, fmt.Errorf("--checkpoint %s: %w", w, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return w.ID(db)
}

// FileOf is the checkpoint file of a run folder, or the file itself.
func FileOf(path string) string {
	path = osfile.Resolve(path)
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return rundir.CheckpointPath(path)
	}
	return path
}
