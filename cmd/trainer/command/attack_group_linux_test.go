package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limits are what a control group allows a program.
type limits struct {
	Memory int     // MiB; 0: any
	CPU    float64 // cores; 0: all
}

// join makes a control group with the limits and returns shell commands that
// move the shell into it. The test is skipped where no group can be made.
func (l limits) join(t *testing.T) string {
	if l == (limits{}) {
		return ""
	}
	const root = "/sys/fs/cgroup"
	makeGroup := l.version1
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		makeGroup = l.version2
	}
	var commands strings.Builder
	err := makeGroup(root, func(parent string, files map[string]string) error {
		dir, err := os.MkdirTemp(parent, "berth-attack-")
		if err != nil {
			return err
		}
		t.Cleanup(func() { removeGroup(t, dir) })
		fmt.Fprintf(&commands, "echo $$ >%s/cgroup.procs && ", dir)
		var errs []error
		for name, value := range files {
			errs = append(errs, writeOver(filepath.Join(dir, name), value))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	return commands.String()
}

// period is the time in µs within which a group may use its share of the cores.
const period = 100_000

func (l limits) version1(root string, makeGroup func(string, map[string]string) error) error {
	var errs []error
	if l.Memory > 0 {
		errs = append(errs, makeGroup(root+"/memory", map[string]string{"memory.limit_in_bytes": strconv.Itoa(l.Memory << 20)}))
	}
	if l.CPU > 0 {
		errs = append(errs, makeGroup(root+"/cpu", map[string]string{"cpu.cfs_quota_us": strconv.Itoa(int(l.CPU * period))}))
	}
	return errors.Join(errs...)
}

// version2 makes a group beside this process's own, where the controllers of that
// one are at hand: a group that has processes gets none for groups below it. From
// the root group it makes one below. It was tried with version 1 alone so far.
func (l limits) version2(root string, makeGroup func(string, map[string]string) error) error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	own, err := groupIn(string(text))
	if err != nil {
		return err
	}
	files := map[string]string{}
	if l.Memory > 0 {
		files["memory.max"] = strconv.Itoa(l.Memory << 20)
	}
	if l.CPU > 0 {
		files["cpu.max"] = fmt.Sprintf("%d %d", int(l.CPU*period), period)
	}
	return makeGroup(filepath.Join(root, filepath.Dir(own)), files)
}

// groupIn reads the path of a process's group of version 2 from its
// /proc/PID/cgroup.
func groupIn(text string) (string, error) {
	for line := range strings.Lines(text) {
		if group, ours := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ours {
			return group, nil
		}
	}
	return "", errors.New("this process is in no group")
}

// TestGroupVersion2 is all of the groups of version 2 that a machine with version
// 1 can try.
func TestGroupVersion2(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n": "/", "12:cpu:/x\n1:name=systemd:/y\n0::/user.slice/a b.scope\n": "/user.slice/a b.scope", "0::/last": "/last", "1:cpu:/x\n": "",
	} {
		if got, err := groupIn(text); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	root := t.TempDir()
	var parent string
	var files map[string]string
	err := limits{Memory: 3, CPU: 0.5}.version2(root, func(p string, f map[string]string) error {
		parent, files = p, f
		return nil
	})
	if err != nil {
		t.Skip(err)
	}
	if !strings.HasPrefix(parent, root) || files["memory.max"] != "3145728" || files["cpu.max"] != "50000 100000" {
		t.Errorf("%s: %v", parent, files)
	}
}

// writeOver writes a file that is there: os.WriteFile would make one.
func writeOver(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// removeGroup removes a group once its last process is gone.
func removeGroup(t *testing.T, dir string) {
	for range 100 {
		err := syscall.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s has processes left", dir)
}
