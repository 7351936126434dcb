package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
)

func init() { beBeset = sweepTold }

// TestFullAtEachWrite: for a sweep the disk is full at each write in turn, of the queue, the run folders and what is deleted there:
// for that one, or until something is said of it. Then the sweep ends as one that always has room.
func TestFullAtEachWrite(t *testing.T) {
	testall.Long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	text := besetText(t)
	want, _, _ := sweepOn(t, "cpu:1", text)
	had, all := beset(t, text, want, nil)
	if !had {
		t.Skip("this system does not let a process judge the calls of another")
	}
	t.Log(all)
	var kinds []string
	for kind := range all {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range []string{"write queue.db", "create checkpoints.db", "remove checkpoints.db", "write report.json.berth-new", "rename to report.json", "write metrics.jsonl"} {
		if all[kind] == 0 {
			t.Errorf("the sweep without faults has no %s: it has %v", kind, all)
		}
	}
	if !testall.Wanted() {
		random.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
		kinds = append(kinds[:4], "remove checkpoints.db")
	}
	for _, kind := range kinds {
		at := []int{0, all[kind] - 1, random.IntN(all[kind])}
		if !testall.Wanted() {
			at = at[2:]
		}
		for _, at := range slices.Compact(at) {
			for _, stays := range []bool{false, true} {
				beset(t, text, want, &full{kind, at, stays})
			}
		}
	}
}

// besetText is a sweep of six trials, of which one fails.
func besetText(t *testing.T) string {
	t.Helper()
	s, err := configs.SweepOfFlags("digits", []string{"optimizer.lr=0.001,0.01,1e30,0.003,0.0001,0.03"}, map[string]string{"halving": "true", "keep": "1"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (f *full) String() string {
	if f == nil {
		return "no fault"
	}
	return fmt.Sprintf("full at %s, number %d, stays %v", f.kind, f.at, f.stays)
}

// full makes a disk full at a write, by its kind and its number among those, from 0.
type full struct {
	kind  string
	at    int
	stays bool // until something is said of it
}

// beset runs a sweep in a process of its own, on a disk that is full as f says, and compares how it ends. It returns how many
// writes of each kind there were.
func beset(t *testing.T, text, want string, f *full) (had bool, writes map[string]int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"sweep.yaml": []byte(text), "config.yaml": jobs.Text(t, "train.epochs=6")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), jobs.DaemonIn+"="+dir, writesIn+"=1")
	c.ExtraFiles = []*os.File{theirs}
	j := &judge{dir: disk, fault: f, seen: map[string]int{}}
	c.Stdout, c.Stderr = j, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	listener, err := received(pair[0])
	if err != nil {
		_ = c.Wait()
		return false, nil
	}
	defer unix.Close(listener)
	judged := make(chan error, 1)
	go func() { judged <- j.judge(listener) }()
	limit := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	err = c.Wait()
	limit.Stop()
	if err := errors.Join(err, <-judged); err != nil {
		t.Fatalf("%v: %v, after\n%s", f, err, j.said)
	}
	l, err := jobs.OpenLocal(filepath.Join(disk, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	views := l.Views()
	if got := outcome(t, views, 1); got != want {
		t.Errorf("%v:\n%s\nwith room:\n%s\nit said\n%s", f, got, want, j.said)
	}
	switch {
	case f == nil:
	case !j.failed:
		t.Logf("%v: there were %d such writes", f, j.seen[f.kind])
	case f.stays && !j.told && j.long:
		t.Errorf("%v: it said nothing of it:\n%s", f, j.said)
	}
	return true, j.seen
}

// judge decides which writes of a process below a folder fail. The process waits for it at each call.
type judge struct {
	dir    string
	fault  *full
	seen   map[string]int // writes, by kind
	failed bool           // the fault was there
	since  time.Time
	told   bool // something was said of it
	long   bool // nothing was said for long

	on   atomic.Bool // the disk is full
	mu   sync.Mutex
	said string
}

// Write takes what the process says.
func (j *judge) Write(b []byte) (int, error) {
	j.mu.Lock()
	j.said += string(b)
	j.mu.Unlock()
	if strings.Contains(string(b), "no space left") && j.on.CompareAndSwap(true, false) {
		j.told = true
	}
	return len(b), nil
}

// A call of another process, as the kernel tells of it, and the answer: see linux/seccomp.h.
type (
	call struct {
		id         uint64
		pid, flags uint32
		number     int32
		arch       uint32
		ip         uint64
		args       [6]uint64
	}
	answer struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}
)

// judge answers for each call until the process ends.
func (j *judge) judge(listener int) error {
	for {
		p := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, 100); err != nil && err != unix.EINTR {
			return err
		}
		if j.on.Load() && time.Since(j.since) > 3*time.Second {
			j.long = true
			j.on.Store(false)
		}
		switch {
		case p[0].Revents&unix.POLLIN != 0:
		case p[0].Revents != 0:
			return nil // it has ended
		default:
			continue
		}
		var q call
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&q))); errno != 0 {
			if errno == unix.ENOENT || errno == unix.EINTR { // the call was interrupted
				continue
			}
			return errno
		}
		a := answer{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if j.fails(&q) {
			a.errno, a.flags = -int32(unix.ENOSPC), 0
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a))); errno != 0 && errno != unix.ENOENT {
			return errno
		}
	}
}

// fails says whether a call fails.
func (j *judge) fails(q *call) bool {
	kind := j.kind(q)
	if kind == "" {
		return false
	}
	n := j.seen[kind]
	j.seen[kind]++
	if f := j.fault; f != nil && !j.failed && f.kind == kind && f.at == n {
		j.failed, j.since = true, time.Now()
		j.on.Store(f.stays)
		return true
	}
	// What is deleted makes room, but where the fault is that it needs some.
	return j.on.Load() && (!strings.HasPrefix(kind, "remove") || strings.HasPrefix(j.fault.kind, "remove"))
}

// drawn matches what is drawn in names of files.
var drawn = regexp.MustCompile(`\d+`)

// kind is what a call is to write, by the name of the file; "": nothing in the folder.
func (j *judge) kind(q *call) string {
	of := func(what, path string) string {
		if !strings.HasPrefix(path, j.dir+"/") {
			return ""
		}
		return what + " " + drawn.ReplaceAllString(filepath.Base(path), "#")
	}
	switch q.number {
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", q.pid, int32(q.args[0])))
		if filepath.Base(path) == jobs.LogName { // what does not fit is left out
			return ""
		}
		return of("write", path)
	case unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE:
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", q.pid, int32(q.args[0])))
		return of("resize", path)
	case unix.SYS_OPENAT:
		path := textAt(q.pid, q.args[1])
		if q.args[2]&unix.O_CREAT == 0 {
			return ""
		}
		if _, err := os.Lstat(path); err == nil {
			return ""
		}
		return of("create", path)
	case unix.SYS_MKDIRAT:
		return of("create", textAt(q.pid, q.args[1]))
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return of("rename to", textAt(q.pid, q.args[3]))
	case unix.SYS_UNLINKAT:
		if path := textAt(q.pid, q.args[1]); filepath.Base(path) == "checkpoints.db" {
			return of("remove", path)
		}
	}
	return ""
}

// textAt is a string of a process.
func textAt(pid uint32, at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, unix.PathMax)
	n, _ := f.ReadAt(b, int64(at)) // up to the end of its page at least
	s, _, _ := strings.Cut(string(b[:n]), "\x00")
	return s
}

// received is the file that the process sends on its socket.
func received(socket int) (fd int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return 0, errors.Join(err, io.ErrUnexpectedEOF)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return files[0], nil
}

// letJudge has the process at the other end of file 3 judge what this one writes.
func letJudge() error {
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS} // the call's number
	filter := []unix.SockFilter{load}
	calls := []uint32{
		unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_OPENAT, unix.SYS_MKDIRAT,
		unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT,
	}
	for i, call := range calls {
		left := uint8(len(calls) - 1 - i)
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: left + 1})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return err
	}
	return errors.Join(syscall.Close(int(listener)), syscall.Close(3))
}

// sweepTold runs the sweep in dir to its end, and prints what it says: once all is on the disk.
func sweepTold(dir string) error {
	*jobs.RetryAfter = 20 * time.Millisecond
	text, err := os.ReadFile(filepath.Join(dir, "sweep.yaml"))
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return err
	}
	if err := letJudge(); err != nil {
		return err
	}
	for {
		err := sweepOnce(filepath.Join(dir, "disk"), config, string(text))
		if err == nil {
			return nil
		}
		fmt.Println("error:", err)
		time.Sleep(10 * time.Millisecond)
	}
}

func sweepOnce(dir string, config []byte, text string) (err error) {
	d, err := jobs.Open(jobs.Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}, Told: func(s string) { fmt.Println("told:", s) }})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-done, d.Close())
	}()
	j, err := d.Submit(ctx, jobs.Submission{Key: "sweep", Config: config, Sweep: text, Parent: filepath.Join(dir, "runs")})
	if err != nil {
		return err
	}
	said := map[string]bool{}
	say := func(what, text string) {
		if !said[text] {
			said[text] = true
			fmt.Println(what, text)
		}
	}
	for over := false; !over; time.Sleep(2 * time.Millisecond) {
		if err := d.Full(); err != nil {
			say("full:", err.Error())
		}
		for _, v := range d.Views() {
			say(fmt.Sprintf("job %d:", v.ID), v.Where)
			over = over || v.ID == j.ID && v.State.Over()
		}
	}
	return nil
}
