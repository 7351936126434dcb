package cut

import (
	"errors"
	"strings"

	"github.com/berth-ml/berth/engine/device"
)

// ErrStages is the cause of errors about stages: wrong names, counts or order.
var ErrStages = errors.New("cannot place the stages as asked")

// PinError is an [ErrStages] about PlanOptions.Pin.
type PinError struct{ err error }

func (e *PinError) Error() string { return e.err.Error() }

// Unwrap is the error without its kind.
func (e *PinError) Unwrap() error { return e.err }

// WhyNot is the reason of a device's refusal, without the words that it is one.
func WhyNot(err error) string {
	return strings.ReplaceAll(err.Error(), device.ErrUnsupported.Error()+": ", "")
}
