package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every error about the contents of a config: about a
// key of the file, a flag or an environment variable.
var ErrInvalid = errors.New("invalid config")

// ErrNotFound is wrapped when neither a file nor a shipped config has the name.
var ErrNotFound = errors.New("no such config")

// maxErrors is the most faults that are reported at once.
const maxErrors = 10

// Error is one fault of a config.
type Error struct {
	Pos Pos    // the file and line, or the flag or variable
	Key string // dotted path of the key; "" for the file as a whole
	Msg string // the value given, the values expected, the nearest valid one
}

// Error gives "file:line: key: message".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{e.Pos.String(), e.Key, e.Msg} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *Error) Unwrap() error { return ErrInvalid }

// PlacedError puts a place in a config before an error that was found after reading it, such
// as a devices.host_memory that is too small for the batches.
type PlacedError struct {
	Pos Pos
	Err error
}

// Error gives "file:line: error".
func (e *PlacedError) Error() string { return fmt.Sprintf("%s: %v", e.Pos, e.Err) }

// Unwrap is the error without its place.
func (e *PlacedError) Unwrap() error { return e.Err }

// At puts a place, where it is known, before an error.
func At(p Pos, err error) error {
	if p == (Pos{}) {
		return err
	}
	return &PlacedError{p, err}
}

// joinFaults joins faults in the order of their lines; none make nil.
func joinFaults(faults []*Error) error {
	slices.SortStableFunc(faults, func(a, b *Error) int { return a.Pos.Line - b.Pos.Line })
	errs := make([]error, 0, maxErrors+1)
	for i, f := range faults {
		if i == maxErrors {
			errs = append(errs, &Error{Msg: fmt.Sprintf("and %d more; mend these first", len(faults)-i)})
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}
