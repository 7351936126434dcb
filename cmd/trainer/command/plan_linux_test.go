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
// It ends within little user time of the processor. The time of day grows also because other
// processes run. System time grows with the memory that the kernel takes back: 90 ms for
// 1 GB, and more on a busy machine.
func TestPlanObeysSignals(t *testing.T) {
	testall.Long(t)
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
	limit := max(300*time.Millisecond, all/25) // slower machines end processes more slowly, too
	interrupted, longest := 0, time.Duration(0)
	for i := range instants {
		c := plan()
		var said strings.Builder
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		at := all * time.Duration(i+1) / time.Duration(instants+2)
		now, user, ended := time.Duration(0), time.Duration(0), false
		for now < at && !ended {
			time.Sleep(5 * time.Millisecond)
			var err error
			if now, user, ended, err = spentSoFar(c.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		if ended { // faster than the first one
			if err := c.Wait(); err != nil {
				t.Errorf("without a signal: %v: %s", err, said.String())
			}
			continue
		}
		interrupted++
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		took := c.ProcessState.UserTime() - user
		longest = max(longest, took)
		if took > limit || c.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "trainer: interrupted") {
			t.Errorf("SIGTERM after %v of %v: it computed for %v more, and exits with %d: %s", now, all, took, c.ProcessState.ExitCode(), said.String())
		}
	}
	t.Logf("it took %v, and %v after a signal at most", all, longest)
	if interrupted < instants/2 {
		t.Errorf("%d of %d ended before the signal, after less than %v", instants-interrupted, instants, all)
	}
}

// spent is the processor time of a command that has ended.
func spent(c *exec.Cmd) time.Duration { return c.ProcessState.UserTime() + c.ProcessState.SystemTime() }

// spentSoFar is the processor time of a child that nobody waited for yet, and the part of it that is
// user time; it may have ended.
func spentSoFar(pid int) (used, user time.Duration, ended bool, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest) // from the third on; the 14th and 15th are user and system time, in 1/100 s
	const tick = 10 * time.Millisecond
	inUser, err1 := strconv.Atoi(fields[11])
	inSystem, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, 0, false, fmt.Errorf("/proc/%d/stat has %q and %q as times", pid, fields[11], fields[12])
	}
	return time.Duration(inUser+inSystem) * tick, time.Duration(inUser) * tick, fields[0] == "Z", nil
}
