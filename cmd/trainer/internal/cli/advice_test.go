package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/engine/osfile"
)

// An error of the system says what to do; others say so themselves.
func TestAdvised(t *testing.T) {
	for cause, want := range map[error]string{
		syscall.EACCES: "chmod", syscall.EPERM: "chmod", syscall.EROFS: "can only be read",
		syscall.EFBIG: "ulimit -f", syscall.EMFILE: "ulimit -n", syscall.ENOMEM: "ulimit -v", osfile.NoRoom[0]: "free some space",
	} {
		err := &fs.PathError{Op: "open", Path: "r", Err: cause}
		got := Advised(err)
		if text := got.Error(); !strings.HasPrefix(text, err.Error()+": ") || !strings.Contains(text, want) || !errors.Is(got, cause) {
			t.Errorf("%v: %q, want %q in it", cause, text, want)
		}
	}
	saving := osfile.Advise(syscall.EFBIG, "keep fewer checkpoints")
	for _, own := range []error{errors.New("the key is unknown: see the list"), saving, fmt.Errorf("step 3: %w", saving)} {
		if got := Advised(own); got != own {
			t.Errorf("%v", got)
		}
	}
	if Advised(nil) != nil {
		t.Error("no error got advice")
	}
}
