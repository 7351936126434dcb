package answer

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/internal/errs"
)

// LongPromptError is a prompt that is longer than the model's context, without
// GenerateOptions.Slide. It is errs.ErrOptions.
type LongPromptError struct{ Tokens, Context int }

// Error says what to do.
func (e *LongPromptError) Error() string {
	return fmt.Sprintf("%v: the prompt has %d tokens, but the context has %d: shorten the prompt, or let the context slide, so that only the prompt's end is read", errs.ErrOptions, e.Tokens, e.Context)
}

// Unwrap is errs.ErrOptions.
func (e *LongPromptError) Unwrap() error { return errs.ErrOptions }

// Advised says what to do about answers or weights that are not finite, and as Kept does.
func Advised(err error) error {
	switch {
	case errors.Is(err, device.ErrNonFinite):
		return fmt.Errorf("%w: %s", err, OtherWeights)
	case errors.Is(err, safetensors.ErrFinite) && !osfile.Advised(err):
		return notFinite(err)
	}
	return Kept(err)
}

// notFinite says what to do where other weights alone help.
func notFinite(err error) error {
	return fmt.Errorf("%w: %s", err, otherWeights)
}

// Kept says what to do where a run that trains meanwhile has deleted the checkpoint.
func Kept(err error) error {
	if !errors.Is(err, checkpoint.ErrDeleted) {
		return err
	}
	return fmt.Errorf("%w: use a checkpoint that the run keeps (--best, checkpoint.keep.every), or copy the checkpoints first (trainer checkpoints copy)", err)
}
