package cli

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// advice says what to do about errors of the system, which say only what is
// wrong. The first that matches counts. A full disk is not among them: saving
// gives its own advice.
var advice = []struct {
	causes []error
	do     string
}{
	{[]error{syscall.EROFS}, "the file system there can only be read: name a path on another, or copy the files to one"},
	{[]error{fs.ErrPermission}, "change the rights there (chmod, chown), or name a path elsewhere"},
	{[]error{syscall.EFBIG}, "raise the limit on the size of files (ulimit -f), or name a path on another file system"},
	{[]error{syscall.EMFILE}, "raise the limit on open files (ulimit -n)"},
	{[]error{syscall.ENOMEM}, "raise the limit on address space (ulimit -v), or lower devices.memory"},
}

// Advised is an error that says what to do, where its cause is an error of the
// system.
func Advised(err error) error {
	for _, a := range advice {
		if slices.ContainsFunc(a.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return advised{err, a.do}
		}
	}
	return err
}

type advised struct {
	error
	do string
}

func (a advised) Error() string { return a.error.Error() + ": " + a.do }

func (a advised) Unwrap() error { return a.error }
