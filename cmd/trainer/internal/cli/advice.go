package cli

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/berth-ml/berth/engine/osfile"
)

// advice says what to do about errors of the system, which say only what is
// wrong. The first that matches counts.
var advice = []struct {
	causes []error
	do     string
}{
	{[]error{syscall.EROFS}, "the file system there can only be read: name a path on another, or copy the files to one"},
	{[]error{fs.ErrPermission}, "change the rights there (chmod, chown), or name a path elsewhere"},
	{[]error{syscall.EFBIG}, "raise the limit on the size of files (ulimit -f), or name a path on another file system"},
	{noRoom(), "free some space, or name a path on another file system"},
	{[]error{syscall.EMFILE}, "raise the limit on open files (ulimit -n)"},
	{[]error{syscall.ENOMEM}, "raise the limit on address space (ulimit -v), or lower devices.memory"},
}

// noRoom lists the errors of a full disk.
func noRoom() (list []error) {
	for _, e := range osfile.NoRoom {
		list = append(list, e)
	}
	return list
}

// Advised is an error that says what to do, where its cause is an error of the
// system. One that already does stays as it is.
func Advised(err error) error {
	if osfile.Advised(err) {
		return err
	}
	for _, a := range advice {
		if slices.ContainsFunc(a.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return osfile.Advise(err, a.do)
		}
	}
	return err
}
