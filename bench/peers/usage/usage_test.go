package usage

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// The share of others is what the machine did beyond this process.
func TestOthers(t *testing.T) {
	const line = "cpu  100 20 30 9999 8888 1 2 3 70 80"
	if got := busyTime(line); got != 1560*time.Millisecond {
		t.Errorf("%v busy, want 1.56s", got)
	}
	now := time.Now()
	before := Usage{at: now, all: time.Second, own: time.Second}
	after := Usage{at: now.Add(time.Second), all: time.Duration(runtime.NumCPU())*time.Second + time.Second, own: time.Second}
	if got := after.OthersSince(before); math.Abs(got-1) > 1e-9 {
		t.Errorf("others took %v of a machine that was theirs", got)
	}
	if u := Read(); u.own <= 0 || u.all < 0 {
		t.Errorf("%+v", u)
	}
}
