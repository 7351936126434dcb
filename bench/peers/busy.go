package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is the processor time taken so far: by the whole machine, and by this
// process and those it waited for.
type usage struct {
	at       time.Time
	all, own time.Duration
}

// ticksPerSecond is the unit of /proc/stat, the same on every Linux.
const ticksPerSecond = 100

func readUsage() usage {
	u := usage{at: time.Now()}
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

// busyTime is of the line "cpu user nice system idle iowait irq softirq steal …".
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

// othersSince is the share of all cores' time that other programs took since
// an earlier moment.
func (u usage) othersSince(before usage) float64 {
	there := u.at.Sub(before.at).Seconds() * float64(runtime.NumCPU())
	others := (u.all - before.all) - (u.own - before.own)
	return max(0, others.Seconds()) / there
}

// disturbed is a sentence if other programs took much of the machine: then a
// median says little.
func (r report) disturbed() string {
	var shares []float64
	for _, t := range r.Turns {
		shares = append(shares, t.Others)
	}
	if m := median(shares); m > 0.05 {
		return fmt.Sprintf("Other programs took %.0f%% of the processors in the median turn: compare the columns *least*.\n\n", 100*m)
	}
	return ""
}
