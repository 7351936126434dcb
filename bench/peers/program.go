package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// program is a program that takes turns.
type program struct {
	family  string                     // one of families
	variant string                     // the variant within the family; may be empty
	does    func(workload string) bool // whether it can run a workload
	run     func(ctx context.Context, workload string) (sample, error)

	// Of PyTorch.
	python string
	env    []string
}

func (p program) name() string {
	if p.variant == "" {
		return p.family
	}
	return p.family + ", " + p.variant
}

// output runs a command to its end and reads the JSON that it prints into into.
// If that leaves peak at 0, output sets it to the process's peak memory.
func output(c *exec.Cmd, into any, peak *int64) error {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", c, err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if *peak == 0 {
		*peak = peakResident(c)
	}
	return nil
}

// peakResident is the peak memory in bytes of a command that has ended.
func peakResident(c *exec.Cmd) int64 {
	use, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return use.Maxrss << 10 // in KiB on Linux
}

func every(string) bool { return true }

// only is true for one workload.
func only(workload string) func(string) bool {
	return func(w string) bool { return w == workload }
}

// goBuild builds a package of the module in a folder, without cgo.
func goBuild(ctx context.Context, folder, bin, pkg string, env ...string) error {
	c := exec.CommandContext(ctx, "go", "-C", folder, "build", "-buildvcs=auto", "-o", bin, pkg)
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c, err, out)
	}
	return nil
}
