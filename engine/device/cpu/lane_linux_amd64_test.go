package cpu

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getcpu is the core of this thread, by the system call.
func getcpu(t *testing.T) int32 {
	t.Helper()
	var core uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); e != 0 {
		t.Fatal(e)
	}
	return int32(core)
}

// onEachCore runs f on each core that the test may use, on a thread that may use all of them.
func onEachCore(t *testing.T, f func(core int32, allowed unix.CPUSet)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	for core := range len(newest) {
		if !allowed.IsSet(core) {
			continue
		}
		var one unix.CPUSet
		one.Set(core)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		f(int32(core), allowed)
		if err := unix.SchedSetaffinity(0, &allowed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCoreIsTheSystems(t *testing.T) {
	onEachCore(t, func(core int32, _ unix.CPUSet) {
		if got := coreNow(); got != core && got != -1 {
			t.Errorf("on core %d, coreNow is %d", core, got)
		}
	})
}

// TestSharedCoreIsLeft computes in two lanes on one core. The second one goes to another core, but not at once, and its thread may
// use all cores afterwards.
func TestSharedCoreIsLeft(t *testing.T) {
	onEachCore(t, func(core int32, allowed unix.CPUSet) {
		if allowed.Count() < 2 || coreNow() < 0 {
			t.Skip("needs a second core, and a system that tells on which one a thread runs")
		}
		var first, second lane
		first.enter()
		second.enter()
		if got := getcpu(t); got != core {
			t.Fatalf("the thread left core %d for %d at once", core, got)
		}
		if err := unix.SchedSetaffinity(0, &allowed); err != nil {
			t.Fatal(err)
		}
		moved := false
		for begin := time.Now(); !moved && time.Since(begin) < 10*time.Second; {
			time.Sleep(2 * shares) // the system may move the thread itself: then it is alone
			first.core.Store(coreNow())
			newest[coreNow()].Store(&first)
			at := coreNow()
			second.enter()
			moved = getcpu(t) != at
		}
		if !moved {
			t.Error("the thread still shares its core")
		}
		var after unix.CPUSet
		if err := unix.SchedGetaffinity(0, &after); err != nil || after != allowed {
			t.Errorf("the thread may use %v afterwards (%v), before %v", after, err, allowed)
		}
		first.leave()
		second.leave()
	})
}
