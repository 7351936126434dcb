// Package fault is the errors of reading data, for the packages that read it.
//
// [ErrFormat] and its like tell causes apart. [Option] says which key of a config is to blame,
// and [Blame] reads that again.
package fault

import (
	"errors"
	"strings"
)

// The causes of errors.
var (
	ErrFormat = errors.New("malformed data")  // the contents of a file; the message says where
	ErrSpec   = errors.New("invalid dataset") // an option of a dataset
	ErrTooFew = errors.New("too few samples") // a part would be empty
	ErrMemory = errors.New("data too large")  // the samples take more memory than they may
)

// blamed is an error about one option.
type blamed struct {
	option string
	error
}

func (b *blamed) Unwrap() error { return b.error }

// Option attaches to an error the option that causes it, by its name in a config.
func Option(name string, err error) error { return &blamed{name, err} }

// Blame gives the option that causes an error, by its name in a config. It is the path unless
// the error knows another.
func Blame(err error) string {
	var b *blamed
	if errors.As(err, &b) {
		return b.option
	}
	return "path"
}

// Few lists the first few of many names.
func Few(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
