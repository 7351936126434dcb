package checkpoint

import (
	"errors"
	"fmt"
)

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
