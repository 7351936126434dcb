package datasets

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// fits refuses a file whose samples take more bytes of memory than there are.
func fits(path string, need, memory int64) error {
	if memory <= 0 || need <= memory {
		return nil
	}
	take, free := units.TwoBytes(need, memory)
	if memory == 1 { // which stands for none
		free = "none"
	}
	return fmt.Errorf("%w: the samples of %s take %s of memory, and %s is free: train on a part of the file, or give the process more memory", ErrMemory, path, take, free)
}
