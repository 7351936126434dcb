package busy

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// Where more processes compute than there are cores, the machine is busy.
func TestBusy(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip(err)
	}
	for range 8 * runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		}()
	}
	p := Begin()
	for begin := time.Now(); !p.Busy(); {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the process has waited for %.0f%% of its work", 100*p.share())
		}
	}
}

// What tests assume counts.
func TestAssume(t *testing.T) {
	defer func() { Assume = nil }()
	for _, busy := range []bool{true, false} {
		Assume = func() bool { return busy }
		if Begin().Busy() != busy {
			t.Error(busy)
		}
	}
}
