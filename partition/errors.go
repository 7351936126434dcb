package partition

import (
	"errors"
)

// The causes of this package's errors.
var (
	ErrMemory = errors.New("the model does not fit in device memory")
	// ErrReplicas is for replicas that do not fit the devices or the step.
	ErrReplicas = errors.New("cannot run the replicas as asked")
)

// replicasError is an ErrReplicas.
type replicasError string

func (e replicasError) Error() string { return string(e) }
func (e replicasError) Unwrap() error { return ErrReplicas }
