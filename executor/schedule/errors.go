package schedule

import "errors"

// The causes of this package's errors.
var (
	ErrInvalid = errors.New("invalid schedule")
	ErrSyntax  = errors.New("not a schedule")
	ErrUnknown = errors.New("unknown schedule")
)
