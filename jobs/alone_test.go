package jobs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// submitTo queues jobs while no daemon runs.
func submitTo(t *testing.T, dir string, configs [][]byte) {
	t.Helper()
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first := len(l.Views())
	for i, c := range configs {
		if _, err := l.Submit(t.Context(), Submission{Key: fmt.Sprint(first + i), Config: c, Parent: filepath.Join(dir, "runs"), Retries: 2}); err != nil {
			t.Fatal(err)
		}
	}
}

// runDaemon runs a daemon and kills it some time after it has opened the queue.
func runDaemon(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), DaemonIn+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "open\n" {
		t.Fatalf("daemon: %q, %v", line, err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.Exited() {
		t.Fatalf("the daemon ended by itself: %v", err)
	}
}
