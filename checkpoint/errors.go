package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-ml/berth/engine/osfile"
)

// The kinds of failure; test for them with errors.Is.
var (
	// ErrHeld: another process has the file open, or this one for another use.
	ErrHeld = errors.New("checkpoint file is in use")
	// ErrHeldHere: an ErrHeld of this process.
	ErrHeldHere = errors.New("this process")
	// ErrDamaged: the file's contents are not those that were written.
	ErrDamaged = errors.New("checkpoint file is damaged")
	// ErrNotFound: no such file, checkpoint or tensor.
	ErrNotFound = errors.New("checkpoint not found")
	// ErrTensors: a file's tensors are not those that it should have, by name and shape.
	ErrTensors = errors.New("the tensors do not match the checkpoint's")
	// ErrFormat: the file has a format version that this program does not know.
	ErrFormat = errors.New("unknown checkpoint format")
	// ErrReadOnly: a write to a file opened for reading.
	ErrReadOnly = errors.New("checkpoint file is open for reading only")
	// ErrMoved: the path that the file was opened at no longer leads to it.
	ErrMoved = errors.New("checkpoint file is not where it was")
	// ErrDeleted: another process deleted the checkpoint while it was read.
	ErrDeleted = errors.New("checkpoint was deleted while it was read")
	// ErrClosed: use after Close.
	ErrClosed = errors.New("checkpoint file is closed")
)

// damaged makes an ErrDamaged with its cause.
func damaged(format string, args ...any) error {
	return damage{fmt.Errorf(format, args...)}
}

// damage is an ErrDamaged. Its text has the words of ErrDamaged once, however
// many of its causes are damage too.
type damage struct{ cause error }

func (d damage) Error() string { return ErrDamaged.Error() + ": " + bare(d.cause) }

func (d damage) Unwrap() []error { return []error{ErrDamaged, d.cause} }

// bare is the text of an error without the words of ErrDamaged.
func bare(err error) string { return strings.ReplaceAll(err.Error(), ErrDamaged.Error()+": ", "") }

// outOfSpace reports whether a write failed because there was no room.
func outOfSpace(err error) bool { return noRoomOf(err) != nil }

// noRoomOf is the system's error where a write found no room; nil for other errors.
func noRoomOf(err error) error {
	for _, e := range osfile.NoRoom {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}

// roomAdvised says how to make room for a checkpoint, if that is why err came.
func roomAdvised(err error) error {
	switch {
	case errors.Is(err, syscall.EFBIG):
		return osfile.Advise(err, "raise the limit on the size of files (ulimit -f), or keep fewer checkpoints")
	case outOfSpace(err):
		return osfile.Advise(err, "free some space, or keep fewer checkpoints")
	}
	return err
}

// withErrno wraps the cause of an error of bbolt's again: where bbolt cannot
// enlarge the file, it keeps the cause only as text.
func withErrno(err error) error {
	if err == nil || outOfSpace(err) {
		return err
	}
	for _, e := range osfile.NoRoom {
		if strings.HasSuffix(err.Error(), ": "+e.Error()) {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(err.Error(), ": "+e.Error()), e)
		}
	}
	return err
}

// Skipped is a checkpoint that was left out, and the reason. ID 0 stands for damage
// that belongs to no single checkpoint.
type Skipped struct {
	ID  uint64
	Err error
}

// String is "checkpoint 7: …", or "part of the file: …" without an ID.
func (s Skipped) String() string {
	of, text := "part of the file", s.Err.Error()
	if s.ID != 0 {
		of = fmt.Sprintf("checkpoint %d", s.ID)
	}
	if errors.Is(s.Err, ErrDamaged) {
		text = "damaged: " + bare(s.Err)
	}
	return of + ": " + text
}

// lostCheckpoint reports a checkpoint that the head names and the file lacks; with
// 0, one whose id is unknown.
func lostCheckpoint(id uint64) Skipped {
	if id == 0 {
		return Skipped{0, damaged("the record that lists the checkpoints is damaged: one may be missing")}
	}
	return Skipped{id, damaged("the file's list of checkpoints names it, but its records are missing")}
}
