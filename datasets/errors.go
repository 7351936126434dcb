package datasets

import (
	"errors"
	"fmt"
	"strings"
)

// The causes of errors.
var (
	ErrFormat = errors.New("malformed data")   // the contents of a file; the message says where
	ErrSpec   = errors.New("invalid dataset")  // an option of a Spec
	ErrTooFew = errors.New("too few samples")  // a part would be empty
	ErrMemory = errors.New("data too large")   // the samples take more than Spec.Memory
	ErrDst    = errors.New("destination size") // the memory given to Read does not fit
	ErrClosed = errors.New("loader is closed")
)

// blamed is an error about one option.
type blamed struct {
	option string
	error
}

func (b *blamed) Unwrap() error { return b.error }

// blame attaches to an error the option that causes it, by its name in a config.
func blame(option string, err error) error { return &blamed{option, err} }

// Blame gives the option that causes an error of Open, by its name in a config.
// It is the path unless the error knows another.
func Blame(err error) string {
	var b *blamed
	if errors.As(err, &b) {
		return b.option
	}
	return "path"
}

// few lists the first few of many names.
func few(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// notUnit is the message about a target that UnitTarget refuses.
func notUnit(v float32) string {
	return fmt.Sprintf("the target is %v, but loss bce needs targets from 0 to 1: change the target, or take another loss, such as mse", v)
}
