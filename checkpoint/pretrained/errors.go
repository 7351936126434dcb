package pretrained

import (
	"errors"
	"fmt"
)

// The causes of errors.
var (
	// ErrFormat: a folder that holds no model of a family here, or a damaged one.
	ErrFormat = errors.New("the model cannot be imported")
	// ErrFolder: a folder that a model is not written to.
	ErrFolder = errors.New("refusing to write here")
)

// bad is an ErrFormat about a file.
func bad(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrFormat, path, fmt.Sprintf(format, args...))
}
