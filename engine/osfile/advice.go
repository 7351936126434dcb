package osfile

import "errors"

// Advise adds to an error what to do about it.
func Advise(err error, do string) error { return &advised{err, do} }

// Advised reports whether an error says what to do about it.
func Advised(err error) bool {
	var a *advised
	return errors.As(err, &a)
}

type advised struct {
	cause error
	do    string
}

func (a *advised) Error() string { return a.cause.Error() + ": " + a.do }

func (a *advised) Unwrap() error { return a.cause }
