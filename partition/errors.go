package partition

import (
	"errors"
	"strings"

	"github.com/berth-ml/berth/engine/device"
)

// The causes of this package's errors.
var (
	ErrStages = errors.New("cannot place the stages as asked") // wrong names, counts or order
	ErrMemory = errors.New("the model does not fit in device memory")
	ErrGraph  = errors.New("the graph cannot be partitioned")
	// ErrReplicas is for replicas that do not fit the devices or the step.
	ErrReplicas = errors.New("cannot run the replicas as asked")
)

// replicasError is an ErrReplicas.
type replicasError string

func (e replicasError) Error() string { return string(e) }
func (e replicasError) Unwrap() error { return ErrReplicas }

// PinError is an [ErrStages] about PlanOptions.Pin.
type PinError struct{ err error }

func (e *PinError) Error() string { return e.err.Error() }

// Unwrap is the error without its kind.
func (e *PinError) Unwrap() error { return e.err }

// whyNot is the reason of a device's refusal, without the words that it is one.
func whyNot(err error) string {
	return strings.ReplaceAll(err.Error(), device.ErrUnsupported.Error()+": ", "")
}
