package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// resident is the memory of the process that no file has, in bytes.
func resident(t *testing.T) (n int64) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestMemoryOfSuspendedJobs: a job that stands aside has its state in memory, and no room for a save of it.
func TestMemoryOfSuspendedJobs(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	var first int64
	const jobs = 8
	for i := range jobs {
		config := text(t, "train.epochs=400", "model.hidden=[1024,1024]")
		j, err := d.Submit(t.Context(), Submission{Key: fmt.Sprint(i), Config: config, Dir: filepath.Join(dir, fmt.Sprint(i)), Priority: i})
		if err != nil {
			t.Fatal(err)
		}
		for v, _ := d.View(j.ID); v.Step < 5; v, _ = d.View(j.ID) {
			time.Sleep(time.Millisecond)
		}
		if i == 0 {
			first = resident(t)
		}
	}
	j, _ := d.queue.Job(1)
	if each := (resident(t) - first) / (jobs - 1); each > j.Memory+j.Memory/3 {
		t.Errorf("each suspended job takes %d bytes; on its device it has at most %d", each, j.Memory)
	} else {
		t.Logf("each takes %d bytes, at most %d on its device", each, j.Memory)
	}
}
