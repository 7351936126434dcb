//go:build !static && linux && (amd64 || arm64)

package mpi

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/executor/ranks"
)

// library is a loaded library.
type library struct {
	file   string
	handle uintptr
	at     [numFunctions]uintptr
}

// load loads the first of some files that is there.
func load(files []string) (*library, error) {
	// UCX, which some builds of MPI use, would take over signals of the Go runtime and of the user.
	for name, value := range map[string]string{"UCX_ERROR_SIGNALS": "", "UCX_DEBUG_SIGNO": "0"} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	var missing []string
	for _, file := range files {
		handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		l := &library{file: file, handle: handle}
		for i, name := range names {
			var ok bool
			if l.at[i], ok = l.find(name); !ok {
				return nil, fmt.Errorf("%w: %s has no %s: name the file of an MPI in BERTH_MPI", ranks.ErrLibrary, file, name)
			}
		}
		return l, nil
	}
	return nil, fmt.Errorf("%w: none of %s can be loaded (%s): install the MPI of the launcher, or name its file in BERTH_MPI",
		ranks.ErrLibrary, strings.Join(files, ", "), strings.Join(missing, "; "))
}

// passedOn is how long a launcher may take to pass on what it has read.
const passedOn = 100 * time.Millisecond

// find is the address of a symbol.
func (l *library) find(name string) (uintptr, bool) {
	at, err := purego.Dlsym(l.handle, name)
	return at, err == nil
}

// call calls a function.
func call(f uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(f, args...)
	return r
}

// mapped gets zeroed memory, which stays until the process ends.
func mapped[T any]() (*T, error) {
	var x T
	b, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(x)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("memory for MPI: %w", err)
	}
	return (*T)(unsafe.Pointer(&b[0])), nil
}

// yield lets other threads run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// The operations of futex(2) on memory of one process.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

// futexWait sleeps until futexWake, or for that long (0: without end), unless the word is not 0.
func futexWait(word *uint32, most time.Duration) {
	var limit *unix.Timespec
	if most > 0 {
		t := unix.NsecToTimespec(int64(most))
		limit = &t
	}
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, 0, uintptr(unsafe.Pointer(limit)), 0, 0)
}

// futexWake ends the sleep of a thread in futexWait.
func futexWake(word *uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, 1)
}

// muteErrors has what MPI says of its end not stand behind the reason, which is told. The launcher has read that before: MPICH's
// drops what is left once a rank aborts.
func muteErrors() {
	var st unix.Stat_t
	if unix.Fstat(2, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		for until := time.Now().Add(abortWithin); time.Now().Before(until); time.Sleep(passedOn / 20) {
			if unread, err := unix.IoctlGetInt(2, unix.TIOCINQ); err != nil || unread == 0 {
				break
			}
		}
		time.Sleep(passedOn)
	}
	if f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		_ = unix.Dup3(int(f.Fd()), 2, 0)
	}
}
