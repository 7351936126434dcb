package datasets

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/datasets/fault"
)

// The causes of errors.
var (
	ErrFormat = fault.ErrFormat                // the contents of a file; the message says where
	ErrSpec   = fault.ErrSpec                  // an option of a Spec
	ErrTooFew = fault.ErrTooFew                // a part would be empty
	ErrMemory = fault.ErrMemory                // the samples take more than Spec.Memory
	ErrDst    = errors.New("destination size") // the memory given to Read does not fit
	ErrClosed = errors.New("loader is closed")
)

// blame attaches to an error the option that causes it, by its name in a config.
func blame(option string, err error) error { return fault.Option(option, err) }

// Blame gives the option that causes an error of Open, by its name in a config.
// It is the path unless the error knows another.
func Blame(err error) string { return fault.Blame(err) }

// few lists the first few of many names.
func few(names []string) string { return fault.Few(names) }

// notUnit is the message about a target that UnitTarget refuses.
func notUnit(v float32) string {
	return fmt.Sprintf("the target is %v, but loss bce needs targets from 0 to 1: change the target, or take another loss, such as mse", v)
}
