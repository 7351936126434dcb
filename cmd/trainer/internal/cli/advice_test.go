package cli

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// An error of the system says what to do; others say so themselves.
func TestAdvised(t *testing.T) {
	for cause, want := range map[error]string{
		syscall.EACCES: "chmod", syscall.EPERM: "chmod", syscall.EROFS: "can only be read",
		syscall.EFBIG: "ulimit -f", syscall.EMFILE: "ulimit -n", syscall.ENOMEM: "ulimit -v",
	} {
		err := &fs.PathError{Op: "open", Path: "r", Err: cause}
		got := Advised(err)
		if text := got.Error(); !strings.HasPrefix(text, err.Error()+": ") || !strings.Contains(text, want) || !errors.Is(got, cause) {
			t.Errorf("%v: %q, want %q in it", cause, text, want)
		}
	}
	own := errors.New("the key is unknown: see the list")
	if got := Advised(own); got != own {
		t.Errorf("%v", got)
	}
	if Advised(nil) != nil {
		t.Error("no error got advice")
	}
}
