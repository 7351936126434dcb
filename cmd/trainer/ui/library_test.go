package ui

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// A run whose file takes long to read holds up no other run.
func TestLibraryBesideLongRead(t *testing.T) {
	folder := copied(t, "a", "b")
	if err := os.Truncate(filepath.Join(folder, "a", rundir.MetricsName), 1<<38); err != nil { // a hole: one line without end
		t.Skip(err)
	}
	l := newLibrary()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	long := make(chan error, 1)
	go func() { _, err := l.read(ctx, filepath.Join(folder, "a")); long <- err }()
	until(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.list) > 0
	})
	time.Sleep(10 * time.Millisecond) // it reads
	if h, err := l.read(t.Context(), filepath.Join(folder, "b")); err != nil || h.Points() == 0 {
		t.Errorf("%v, %d points", err, h.Points())
	}
	if ctx.Err() != nil || len(long) > 0 {
		t.Error("the long read ended first")
	}
	cancel()
	<-long
}
