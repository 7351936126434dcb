package command

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// TestPlanObeysSignals interrupts the planning of a deep model at ten instants.
// It ends within little processor time: the time of day grows also because other
// processes run.
func TestPlanObeysSignals(t *testing.T) {
	const limit = 300 * time.Millisecond
	layers, instants := "150", 2
	if testall.Wanted() {
		layers, instants = "2000", 10
	}
	plan := func() *exec.Cmd {
		c := exec.Command("trainer", "plan", "shakespeare", "--set", "model.layers="+layers, "--set", "model.width=4",
			"--set", "model.heads=1", "--set", "model.context=8", "--set", "data.context=8")
		c.Dir = t.TempDir()
		return c
	}
	whole := plan()
	if out, err := whole.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := spent(whole)
	for i := range instants {
		c := plan()
		var said strings.Builder
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		at := all * time.Duration(i+1) / time.Duration(instants+2)
		now := time.Duration(0)
		for now < at {
			time.Sleep(5 * time.Millisecond)
			used, err := spentSoFar(c.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			now = used
		}
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if took := spent(c) - now; took > limit || c.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "trainer: interrupted") {
			t.Errorf("SIGTERM after %v of %v: it computed for %v more, and exits with %d: %s", now, all, took, c.ProcessState.ExitCode(), said.String())
		}
	}
}

// spent is the processor time of a command that has ended.
func spent(c *exec.Cmd) time.Duration { return c.ProcessState.UserTime() + c.ProcessState.SystemTime() }

// spentSoFar is the processor time of a process that runs.
func spentSoFar(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest) // from the third on; the 14th and 15th are user and system time, in 1/100 s
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat has %q and %q as times", pid, fields[11], fields[12])
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}
