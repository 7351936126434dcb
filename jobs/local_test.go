package jobs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/engine/osfile"
)

// TestLocalPlansAside: while a command plans a job where no daemon runs, a daemon can have the queue.
func TestLocalPlansAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan error, 1)
	go func() {
		_, err := l.Submit(t.Context(), Submission{Key: "a", Config: text(t), Parent: t.TempDir()})
		done <- err
	}()
	got := false
	for ended := false; !got && !ended; {
		if got, err = osfile.Lock(f, true); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			done <- err
			ended = true
		default:
		}
	}
	if err := osfile.Unlock(f); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !got {
		t.Errorf("the queue was free meanwhile: %v; %v", got, err)
	}
	if views := l.Views(); len(views) != 1 {
		t.Errorf("%+v", views)
	}
}
