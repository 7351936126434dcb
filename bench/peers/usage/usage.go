// Package usage tells how much of the machine other programs take.
package usage

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is the processor time taken up to a moment: by the whole machine, and by
// this process and the processes that it waited for.
type Usage struct {
	at       time.Time
	all, own time.Duration
}

// ticksPerSecond is the unit of /proc/stat, the same on every Linux.
const ticksPerSecond = 100

// Read reads the usage up to now.
func Read() Usage {
	u := Usage{at: time.Now()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			u.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u // the share comes out as 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	u.all = busyTime(line)
	return u
}

// busyTime is the time that the machine was busy, from the line
// "cpu user nice system idle iowait irq softirq steal …" of /proc/stat.
func busyTime(line string) time.Duration {
	const idle, iowait, last = 4, 5, 8
	var ticks int64
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err == nil && i != idle && i != iowait && i <= last {
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// OthersSince is the share of all cores' time that other programs took since
// an earlier moment.
func (u Usage) OthersSince(before Usage) float64 {
	there := u.at.Sub(before.at).Seconds() * float64(runtime.NumCPU())
	others := (u.all - before.all) - (u.own - before.own)
	return max(0, others.Seconds()) / there
}
