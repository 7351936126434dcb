package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diskOp is what a process asked of the disk, or said.
type diskOp struct {
	kind opKind
	name string // of the file; the new name of a rename
	old  string // of a rename
	at   int64  // of a write; the size of a truncation
	data []byte
	said string
}

type opKind uint8

const (
	opWrite opKind = iota
	opTruncate
	opSync // of a file or a folder
	opCreate
	opRename
	opRemove
	opSay // to its standard output
)

// recorded are the system calls that a traced process stops at: those that
// change files or their names, and those that tell which file is meant. The last
// ones are not expected, and are refused.
var recorded = []uint32{
	unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT,
	unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_COPY_FILE_RANGE, unix.SYS_FALLOCATE,
}

// tracedEnv is set in the environment of a traced process.
const tracedEnv = childEnv + "_TRACED"

func init() {
	if os.Getenv(tracedEnv) != "" {
		if err := stopAtRecorded(); err != nil {
			panic(err)
		}
	}
}

// stopAtRecorded makes this process stop for its tracer at the recorded calls
// alone: at every call, the stops would take most of the time.
func stopAtRecorded() error {
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // the call's number
	filter := []unix.SockFilter{load}
	for i, call := range recorded {
		left := uint8(len(recorded) - 1 - i)
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: left + 1})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// tracer follows a process and its threads from recorded call to recorded call.
type tracer struct {
	dir     string // what happens to files elsewhere does not matter
	mem     *os.File
	files   map[int]string          // by descriptor
	entered map[int]unix.PtraceRegs // by thread, while it is in a call
	ops     []diskOp

	fault  *fault                // nil: nothing fails
	failed map[int]syscall.Errno // by thread: what the call that it is in returns
	seen   int                   // calls that could have failed
}

// fault makes calls on files fail: the one of that number, from 0, and where it
// stays, all after it.
type fault struct {
	calls []uint64 // system calls that count
	at    int
	errno syscall.Errno
	stays bool
	short bool // the first writes half, and only what is left of it fails
}

// record runs the test binary as a child and returns what it did to files
// below dir, in order.
func record(t *testing.T, mode, path, dir string) []diskOp {
	t.Helper()
	return traced(t, mode, path, dir, nil).ops
}

// traced runs the test binary as a child, whose files below dir have a fault.
func traced(t *testing.T, mode, path, dir string, f *fault) *tracer {
	t.Helper()
	runtime.LockOSThread() // a thread traces, not a process
	defer runtime.UnlockOSThread()
	c := child(mode, path)
	c.Env = append(c.Env, tracedEnv+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tr := &tracer{dir: dir, files: map[int]string{}, entered: map[int]unix.PtraceRegs{},
		fault: f, failed: map[int]syscall.Errno{}}
	code, err := tr.follow(c.Process.Pid)
	if err != nil || code != 0 {
		t.Fatalf("tracing: exit code %d, %v", code, err)
	}
	return tr
}

// follow lets a stopped process, which leads a group of its own, run to its end.
// It waits for that group alone: this thread may have started other children.
func (tr *tracer) follow(pid int) (code int, err error) {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil {
		return 0, err
	}
	if tr.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err != nil {
		return 0, err
	}
	defer tr.mem.Close()
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACESECCOMP|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return 0, err
	}
	for thread, signal := pid, 0; ; {
		// A thread that has ended meanwhile is no mistake.
		if err := tr.resume(thread, signal); err != nil && err != unix.ESRCH {
			return 0, err
		}
		for {
			if thread, err = unix.Wait4(-pid, &ws, unix.WALL|unix.WNOTHREAD, nil); err != nil {
				return 0, err
			}
			if !ws.Exited() && !ws.Signaled() {
				break
			}
			if thread == pid {
				return ws.ExitStatus(), nil
			}
		}
		if signal, err = tr.stopped(thread, ws); err != nil && err != unix.ESRCH { // the process ends
			return 0, err
		}
	}
}

// resume lets a thread run to the end of the call that it is in, or else to the
// next recorded one.
func (tr *tracer) resume(thread, signal int) error {
	if _, in := tr.entered[thread]; in {
		return unix.PtraceSyscall(thread, signal)
	}
	return unix.PtraceCont(thread, signal)
}

// stopped is told of every stop, and returns the signal to go on with.
func (tr *tracer) stopped(thread int, ws unix.WaitStatus) (signal int, err error) {
	const afterCall = unix.SIGTRAP | 0x80
	switch s := ws.StopSignal(); s {
	case afterCall:
		return 0, tr.call(thread)
	case unix.SIGTRAP:
		if ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP {
			return 0, tr.call(thread)
		}
		return 0, nil // a thread was made
	case unix.SIGSTOP: // a thread begins
		return 0, nil
	default:
		return int(s), nil
	}
}

// call is told twice of each recorded call: before and after.
func (tr *tracer) call(thread int) error {
	var after unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &after); err != nil {
		return err
	}
	before, ok := tr.entered[thread]
	if !ok {
		tr.entered[thread] = after
		return tr.spoil(thread, after)
	}
	delete(tr.entered, thread)
	if errno, ok := tr.failed[thread]; ok {
		delete(tr.failed, thread)
		after.Rax = -uint64(errno)
		return unix.PtraceSetRegs(thread, &after)
	}
	if result := int64(after.Rax); result >= 0 {
		return tr.done(before, result)
	}
	return nil
}

// spoil makes a call that begins fail, if it is its turn.
func (tr *tracer) spoil(thread int, r unix.PtraceRegs) error {
	f, name := tr.fault, tr.files[int(r.Rdi)]
	if f == nil || name == "" || strings.HasSuffix(name, ".pid") || !slices.Contains(f.calls, r.Orig_rax) {
		return nil
	}
	turn := tr.seen - f.at
	tr.seen++
	switch {
	case turn < 0 || turn > 0 && !f.stays && !(f.short && turn == 1):
		return nil
	case f.short && turn == 0:
		r.Rdx /= 2
	default:
		tr.failed[thread] = f.errno
		r.Orig_rax = ^uint64(0) // no call at all
	}
	return unix.PtraceSetRegs(thread, &r)
}

// done takes note of a call that succeeded.
func (tr *tracer) done(r unix.PtraceRegs, result int64) error {
	name := tr.files[int(r.Rdi)]
	switch r.Orig_rax {
	case unix.SYS_OPENAT:
		path := tr.text(r.Rsi)
		if path != tr.dir && !strings.HasPrefix(path, tr.dir+"/") {
			return nil
		}
		tr.files[int(result)] = path
		if r.Rdx&unix.O_CREAT != 0 {
			tr.ops = append(tr.ops, diskOp{kind: opCreate, name: path})
		}
	case unix.SYS_CLOSE:
		delete(tr.files, int(r.Rdi))
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		return tr.wrote(r, name, result)
	case unix.SYS_FTRUNCATE:
		if name != "" {
			tr.ops = append(tr.ops, diskOp{kind: opTruncate, name: name, at: int64(r.Rsi)})
		}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		if name != "" {
			tr.ops = append(tr.ops, diskOp{kind: opSync, name: name})
		}
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		tr.renamed(tr.text(r.Rsi), tr.text(r.R10))
	case unix.SYS_UNLINKAT:
		tr.ops = append(tr.ops, diskOp{kind: opRemove, name: tr.text(r.Rsi)})
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_COPY_FILE_RANGE, unix.SYS_FALLOCATE:
		if name != "" {
			return fmt.Errorf("system call %d on %s is not recorded", r.Orig_rax, name)
		}
	}
	return nil
}

// renamed keeps the names of open files what they are now.
func (tr *tracer) renamed(from, to string) {
	tr.ops = append(tr.ops, diskOp{kind: opRename, old: from, name: to})
	for fd, name := range tr.files {
		switch name {
		case to: // it has no name any more
			delete(tr.files, fd)
		case from:
			tr.files[fd] = to
		}
	}
}

func (tr *tracer) wrote(r unix.PtraceRegs, name string, n int64) error {
	if name == "" && r.Rdi != 1 {
		return nil
	}
	b := make([]byte, n)
	if _, err := tr.mem.ReadAt(b, int64(r.Rsi)); err != nil {
		return err
	}
	switch {
	case name == "":
		tr.ops = append(tr.ops, diskOp{kind: opSay, said: string(b)})
	case r.Orig_rax == unix.SYS_WRITE && !strings.HasSuffix(name, ".pid"):
		return fmt.Errorf("a write to %s without an offset is not recorded", name)
	default:
		tr.ops = append(tr.ops, diskOp{kind: opWrite, name: name, at: int64(r.R10), data: b})
	}
	return nil
}

// text is a string of the process.
func (tr *tracer) text(at uint64) string {
	b := make([]byte, unix.PathMax)
	n, _ := tr.mem.ReadAt(b, int64(at)) // up to the end of its page at least
	if end := bytes.IndexByte(b[:n], 0); end >= 0 {
		return string(b[:end])
	}
	return ""
}
