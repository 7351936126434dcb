package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Replace gives the file at path the contents that write writes. They go to a file
// beside it, which takes its name once it is whole and on the disk: on an error,
// or if write panics, nothing of that is left. Errors name path.
func Replace(path string, write func(*os.File) error) error {
	f, err := CreateBeside(path)
	if err != nil {
		return named(path, path, err)
	}
	return replace(path, f, write)
}

// ReplaceBy is Replace, where the file beside has the name next, which nobody else
// uses. A link at path is replaced, and the file that it leads to stays.
func ReplaceBy(path, next string, write func(*os.File) error) error {
	f, err := CreateFor(path, next)
	if err != nil {
		return named(path, next, err)
	}
	return replace(path, f, write)
}

// replace fills and closes a file and renames it to path.
func replace(path string, f *os.File, write func(*os.File) error) error {
	next := f.Name()
	defer os.Remove(next) // it has its name by then, unless write failed or panicked
	err := fill(f, write)
	if err == nil {
		err = os.Rename(next, path)
	}
	return named(path, next, err)
}

// fill has write fill a file, which it closes.
func fill(f *os.File, write func(*os.File) error) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}

// named is an error about the file next as one about the file at path, whose
// place it was to take.
func named(path, next string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p) && p.Path == next:
		return fmt.Errorf("%s cannot be written: %w", path, p.Err)
	case errors.As(err, &l) && l.Old == next:
		return fmt.Errorf("%s cannot be written: %w", path, l.Err)
	}
	return err
}
