package checkpoints

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/engine/osfile"
)

// reading opens the checkpoints of a run folder, or a file of them, for f to
// read. A run may train meanwhile.
func reading(path string, f func(db *checkpoint.DB) error) error {
	return opening(path, checkpoint.OpenOptions{ReadOnly: true, Beside: true}, f)
}

// readingAlone is reading while no run trains.
func readingAlone(path string, f func(db *checkpoint.DB) error) error {
	return opening(path, checkpoint.OpenOptions{ReadOnly: true}, f)
}

// opening opens the checkpoints of a run folder, or a file of them, for f.
func opening(path string, o checkpoint.OpenOptions, f func(db *checkpoint.DB) error) error {
	db, err := open(path, o)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

// changing opens the checkpoints of a run folder, or a file of them, for f to
// change. It makes no file.
func changing(path string, f func(db *checkpoint.DB) error) error {
	if err := readingAlone(path, func(*checkpoint.DB) error { return nil }); err != nil {
		return err
	}
	return opening(path, checkpoint.OpenOptions{Readers: checkpoint.WaitForReaders}, f)
}

func open(path string, o checkpoint.OpenOptions) (*checkpoint.DB, error) {
	if path == "" {
		return nil, errUnnamed
	}
	db, err := checkpoint.Open(runs.FileOf(path), o)
	if errors.Is(err, checkpoint.ErrDamaged) {
		return nil, repairable{err, path}
	}
	return db, notThere(err)
}

var errUnnamed = cli.Usagef("the name of the run is empty; %s", nameARun)

const nameARun = "name a run folder, such as runs/digits, or its checkpoints.db"

// notThere says what to name where there is no file of checkpoints, or none in it.
func notThere(err error) error {
	lacking := errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, checkpoint.ErrDamaged)
	switch {
	case errors.Is(err, osfile.ErrNotFile), lacking && errors.Is(err, fs.ErrNotExist):
		return cli.Usagef("%w; %s", err, nameARun)
	case lacking:
		return cli.Usagef("%w; name another run", err)
	}
	return err
}

// advising adds the way to repair to errors about damage.
func advising(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error { return advised(run(c, args), args[0]) }
}

// advised adds the way to repair a run to an error about damage, unless the error has it
// already.
func advised(err error, run string) error {
	var told repairable
	if errors.Is(err, checkpoint.ErrDamaged) && !errors.As(err, &told) {
		return repairable{err, run}
	}
	return err
}

// repairable is damage of a run's checkpoints, with the way to repair it.
type repairable struct {
	error
	run string
}

func (r repairable) Error() string {
	return fmt.Sprintf("%v; trainer checkpoints repair %s whole.db copies the checkpoints in it that are whole", r.error, r.run)
}

func (r repairable) Unwrap() error { return r.error }
