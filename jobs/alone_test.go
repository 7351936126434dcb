package jobs

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestSuspectRunsAlone: a suspect job that is let go on while another runs has the devices to itself: on two
// devices, the other one is suspended until it has saved or ended.
func TestSuspectRunsAlone(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	q, err := queue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	long := text(t, "train.epochs=400", "seed=1")
	submitTo(t, dir, [][]byte{text(t, "train.epochs=200", "seed=2"), long})
	runDaemon(t, dir, 300*time.Millisecond) // both ran: both are suspect
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range l.Views() {
		if !v.Suspect {
			t.Skipf("job %d had not begun, or had ended: %s", v.ID, v.State)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := start(t, dir, "cpu:2")
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		running, suspect := 0, false
		views := d.Views()
		for _, v := range views {
			if v.State == queue.Running {
				running++
				suspect = suspect || v.Suspect
			}
		}
		if suspect && running > 1 {
			t.Fatalf("a suspect job does not run alone: %+v", views)
		}
		if running > 1 || views[0].State.Over() && views[1].State.Over() {
			return // both have saved, and run side by side
		}
	}
	t.Fatal("the jobs do not go on")
}
