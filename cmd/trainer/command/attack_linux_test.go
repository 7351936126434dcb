package command

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/internal/testall"
)

// attackAll makes TestAttack run all cases: make attack.
var attackAll = flag.Bool("attack", false, "run all hostile cases of testdata/attack, not only the quick ones")

// attack is one case of testdata/attack/*.yaml: a hostile input, fault or
// environment, and what must hold nevertheless.
type attack struct {
	Name   string
	Files  map[string]string // contents by path, written first
	Before string            // shell commands that prepare the folder; they must succeed
	Run    string            // the command line under attack, for the shell's exec
	Env    []string          // NAME=VALUE, beyond PATH, HOME and TMPDIR
	Group  limits            // of the control group that it runs in
	Limits string            // arguments of ulimit, such as "-v 1000000" (KiB)
	Signal []struct {        // sent in order; each waits for its moment
		Send  string        // TERM, INT, …
		File  string        // until this file,
		Says  string        // or without one the output, matches this
		After time.Duration // and then so long
	}
	Exit    []int         // the exit codes that are right
	Says    []string      // each must match the output
	Lines   int           // most lines on standard error; 0 for any number
	Changes []string      // patterns of paths that the command may make or change; all else stays
	Within  time.Duration // 20 s if none is given
	Memory  int           // most resident memory, in MiB; 0 for any
	Then    string        // shell commands that must succeed afterwards
	Root    bool          // it mounts file systems, which only root can
	Quick   bool          // takes less than half a second: part of every go test
	Open    string        // why the case does not hold yet
}

// never are the words that no user must see.
var never = regexp.MustCompile(`(?m)^panic:|^goroutine \d|^fatal error:|runtime error|context (canceled|deadline exceeded)|BUG:|\.berth-\d`)

// TestAttack tries hostile inputs, faults and environments. Without -attack it
// runs the quick cases.
func TestAttack(t *testing.T) {
	testall.Long(t)
	tables, err := filepath.Glob("testdata/attack/*.yaml")
	if err != nil || len(tables) == 0 {
		t.Fatal("no cases", err)
	}
	for _, table := range tables {
		t.Run(strings.TrimSuffix(filepath.Base(table), ".yaml"), func(t *testing.T) {
			for _, a := range attacksOf(t, table) {
				t.Run(a.Name, func(t *testing.T) {
					if !a.Quick && !*attackAll {
						t.Skip("takes longer: make attack runs it")
					}
					if a.Root && os.Getuid() != 0 {
						t.Skip("only root can mount file systems")
					}
					a.try(t)
				})
			}
		})
	}
}

func attacksOf(t *testing.T, table string) (cases []*attack) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&cases); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	for _, a := range cases {
		if a.Name == "" || a.Run == "" || len(a.Exit) == 0 {
			t.Fatalf("%s: %q: a case has a name, run and exit", table, a.Name)
		}
	}
	return cases
}

// try runs the case in a folder of its own. An open case must fail: once it
// holds, the table is to say so.
func (a *attack) try(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the unprivileged program passes through it
		t.Fatal(err)
	}
	if err := a.prepare(dir); err != nil {
		t.Fatal(err)
	}
	err := a.hold(t, dir)
	switch {
	case a.Open != "" && err == nil:
		t.Errorf("it holds now: remove open: %q", a.Open)
	case a.Open != "":
		t.Skipf("open: %s: %v", a.Open, err)
	case err != nil:
		t.Error(err)
	}
}

func (a *attack) prepare(dir string) error {
	for name, text := range a.Files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return a.shell(dir, a.Before)
}

// shell runs commands that must succeed.
func (a *attack) shell(dir, commands string) error {
	cmd := exec.Command("sh", "-euc", commands)
	cmd.Dir, cmd.Env = dir, a.environment(dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", commands, err, out)
	}
	return nil
}

func (a *attack) environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir()}
}

// hold runs the command and compares what must hold.
func (a *attack) hold(t *testing.T, dir string) error {
	before, err := contentsOf(dir)
	if err != nil {
		return err
	}
	ended, err := a.run(dir, a.Group.join(t))
	if err != nil {
		return err
	}
	after, err := contentsOf(dir)
	if err != nil {
		return err
	}
	t.Logf("exit code %d, %d MiB resident, it printed:\n%s", ended.code, ended.memory, ended.all)
	err = errors.Join(a.judge(ended), a.unchanged(before, after))
	if a.Then != "" {
		err = errors.Join(err, a.shell(dir, a.Then))
	}
	return err
}

// ended is a program that has ended.
type ended struct {
	code        int // -1: killed
	all, stderr string
	late        bool
	memory      int // MiB
}

func (a *attack) judge(e *ended) error {
	var errs []error
	miss := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	right := false
	for _, code := range a.Exit {
		right = right || code == e.code
	}
	if e.late {
		miss("it did not end within %v", a.within())
	} else if !right {
		miss("exit code %d, expected one of %v", e.code, a.Exit)
	}
	for _, want := range a.Says {
		if ok, err := regexp.MatchString("(?m)"+want, e.all); err != nil || !ok {
			miss("nothing printed matches %q %v", want, err)
		}
	}
	if bad := never.FindString(e.all); bad != "" {
		miss("it printed %q", bad)
	}
	if n := strings.Count(e.stderr, "\n"); a.Lines > 0 && n > a.Lines {
		miss("%d lines on standard error, expected at most %d", n, a.Lines)
	}
	if a.Memory > 0 && e.memory > a.Memory {
		miss("%d MiB resident, expected at most %d", e.memory, a.Memory)
	}
	return errors.Join(errs...)
}

func (a *attack) within() time.Duration {
	if a.Within == 0 {
		return 20 * time.Second
	}
	return a.Within
}

// printed is the output of a program, both of its streams in turn.
type printed struct {
	mu          sync.Mutex
	all, stderr bytes.Buffer
}

type stream struct {
	to    *printed
	isErr bool
}

func (s stream) Write(b []byte) (int, error) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	if s.isErr {
		s.to.stderr.Write(b)
	}
	return s.to.all.Write(b)
}

func (p *printed) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// ownPeak is the most memory that this process has had in use since a moment ago, in KiB: the system counts it as
// the next command's, too, so that a command that takes no more cannot be told from it.
func ownPeak() (kib int64) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	status, _ := os.ReadFile("/proc/self/status")
	if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscan(text, &kib)
	}
	return kib
}

// takenBy is the most memory that a command took, in MiB; 0 if that is not known, since this process has
// as much.
func takenBy(usage *syscall.Rusage, own int64) int {
	if usage.Maxrss <= own+8<<10 {
		return 0
	}
	return int(usage.Maxrss >> 10)
}

// run joins a control group and runs the command until it ends or its time is over.
func (a *attack) run(dir, join string) (*ended, error) {
	line := join + "exec " + a.Run
	if a.Limits != "" {
		line = "ulimit " + a.Limits + " && " + line
	}
	var out printed
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(a.environment(dir), a.Env...)
	cmd.Stdout, cmd.Stderr = stream{&out, false}, stream{&out, true}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	own := ownPeak()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var late bool
	stop := make(chan struct{})
	watch := time.AfterFunc(a.within(), func() { late = true; _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	sent := make(chan error, 1)
	go func() { sent <- a.signals(cmd.Process, dir, &out, stop) }()
	_ = cmd.Wait()
	watch.Stop()
	close(stop)
	if err := <-sent; err != nil {
		return nil, fmt.Errorf("%w\nit printed:\n%s", err, out.text())
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return &ended{cmd.ProcessState.ExitCode(), out.all.String(), out.stderr.String(), late, takenBy(usage, own)}, nil
}

// signals sends the case's signals, each at its moment.
func (a *attack) signals(p *os.Process, dir string, out *printed, stop <-chan struct{}) error {
	for _, s := range a.Signal {
		says, err := regexp.Compile(s.Says)
		if err != nil {
			return err
		}
		for {
			text := out.text()
			if s.File != "" {
				b, err := os.ReadFile(filepath.Join(dir, s.File))
				text = string(b)
				if err != nil {
					text = "\x00" // not there: matches nothing
				}
			}
			if says.MatchString(text) && text != "\x00" {
				break
			}
			select {
			case <-stop:
				return fmt.Errorf("it ended before the moment for %s", s.Send)
			case <-time.After(time.Millisecond):
			}
		}
		select {
		case <-stop:
			return nil // over already: its exit code is judged
		case <-time.After(s.After):
		}
		number, ok := signalsByName[s.Send]
		if !ok {
			return fmt.Errorf("no signal %s", s.Send)
		}
		if err := send(p, number); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}

// contentsOf describes everything in a folder, by path: kind, mode and contents.
func contentsOf(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		what := st.Mode().String()
		switch {
		case st.Mode().IsRegular():
			sum, err := sumOf(p)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", sum)
		case st.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			what += " " + to
		}
		all[name] = what
		return nil
	})
	return all, err
}

// sumOf reads a file piece by piece: the memory of this process would count as
// that of the programs that it starts. Of a huge file it reads the beginning.
func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, _ = fmt.Fprint(h, st.Size())
	_, err = io.Copy(h, io.LimitReader(f, 64<<20))
	return h.Sum(nil), err
}

// unchanged compares a folder before and after: only what the case names may
// be made, changed or removed.
func (a *attack) unchanged(before, after map[string]string) error {
	var errs []error
	for name, was := range before {
		if is, there := after[name]; is != was && !a.mayChange(name) {
			what := "was changed"
			if !there {
				what = "is gone"
			}
			errs = append(errs, fmt.Errorf("%s %s", name, what))
		}
	}
	for name := range after {
		if _, there := before[name]; !there && !a.mayChange(name) {
			errs = append(errs, fmt.Errorf("%s was made", name))
		}
	}
	return errors.Join(errs...)
}

// mayChange reports whether a path, or a folder above it, matches one of the
// patterns.
func (a *attack) mayChange(name string) bool {
	for at := filepath.ToSlash(name); at != "."; at = path.Dir(at) {
		for _, pattern := range a.Changes {
			if ok, _ := path.Match(pattern, at); ok {
				return true
			}
		}
	}
	return false
}
