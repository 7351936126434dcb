package answer

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/device"
)

// Advised says what to do about values that are not finite, and as Kept does.
func Advised(err error) error {
	if errors.Is(err, device.ErrNonFinite) {
		return fmt.Errorf("%w: %s", err, OtherWeights)
	}
	return Kept(err)
}

// Kept says what to do where a run that trains meanwhile has deleted the checkpoint.
func Kept(err error) error {
	if !errors.Is(err, checkpoint.ErrDeleted) {
		return err
	}
	return fmt.Errorf("%w: use a checkpoint that the run keeps (--best, checkpoint.keep.every), or copy the checkpoints first (trainer checkpoints copy)", err)
}
