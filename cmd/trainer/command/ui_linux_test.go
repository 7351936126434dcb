package command

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A browser that goes on, and has our output open, holds up nothing. One that cannot be opened says why.
func TestOpenBrowser(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("(while [ -e \"$1\" ]; do sleep 0.05; done) &\n")
	type opened struct {
		closed func()
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		closed, err := openBrowser(t.Context(), "http://127.0.0.1/#token")
		done <- opened{closed, err}
	}()
	select {
	case o := <-done:
		o.closed()
		if o.err != nil {
			t.Error(o.err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the browser's end")
	}
	script("echo no display >&2; exit 3\n")
	closed, err := openBrowser(t.Context(), "http://127.0.0.1/#token")
	closed()
	if err == nil || err.Error() != "xdg-open: exit status 3 no display\n" {
		t.Error(err)
	}
}
