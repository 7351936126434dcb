package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

func (l limits) version2(root string, makeGroup func(string, map[string]string) error) error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	lines := strings.Split(string(own), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "0::") })
	if i < 0 {
		return errors.New("this process is in no group")
	}
	files := map[string]string{}
	if l.Memory > 0 {
		files["memory.max"] = strconv.Itoa(l.Memory << 20)
	}
	if l.CPU > 0 {
		files["cpu.max"] = fmt.Sprintf("%d %d", int(l.CPU*period), period)
	}
	return makeGroup(filepath.Join(root, strings.TrimPrefix(lines[i], "0::")), files)
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
