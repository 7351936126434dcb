package partition

import (
	"errors"
)

// The causes of this package's errors.
var (
	ErrStages = errors.New("cannot place the stages as asked") // wrong names, counts or order
	ErrMemory = errors.New("the model does not fit in device memory")
	ErrGraph  = errors.New("the graph cannot be partitioned")
)
