package cli

import (
	"errors"
	"fmt"
)

// The exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2   // a mistake on the command line or in a config
	ExitStopped = 75  // stopped by a signal or --max-time; saved, if there was anything to save
	ExitPipe    = 141 // nobody reads the output any more, as a shell reports it
)

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a mistake on the command line.
func Usage(err error) error { return usageError{err} }

// Usagef is a mistake on the command line, worded like fmt.Errorf.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// unreadError is a write to a pipe that nobody reads any more.
type unreadError struct{ error }

func (e unreadError) Unwrap() error { return e.error }

// Unread marks an error as that of a pipe whose reader has seen enough, as after
// "| head". It is not printed.
func Unread(err error) error { return unreadError{err} }

// ExitCode is the exit code for a command's error. A program that trains has errors of
// its own, which are failures here.
func ExitCode(err error) int {
	var usage usageError
	var unread unreadError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &unread):
		return ExitPipe
	case errors.As(err, &usage):
		return ExitUsage
	}
	return ExitFailure
}
