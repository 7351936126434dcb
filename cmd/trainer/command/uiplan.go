package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/ui"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

// The bounds of a process that draws a plan for the page. Its config may be anybody's.
const (
	drawTime   = 20 * time.Second
	drawMemory = 2 << 30 // bytes; the collector aims at half of them
	drawLook   = 20 * time.Millisecond
	mostSVG    = 2 << 20
	mostPlan   = 64 << 10 // of the table
)

// passed are the variables that such a process gets, besides those that are not Berth's: others stand for keys of a config.
var passed = []string{"BERTH_CPU", "BERTH_CACHE", "BERTH_COSTS", "BERTH_OPENCL"}

// drawApart draws the plan of a config as trainer plan --svg does, in a process of its own.
func drawApart(ctx context.Context, config []byte) (p ui.Picture, err error) {
	program, err := os.Executable()
	if err != nil {
		return p, err
	}
	dir, err := os.MkdirTemp("", "berth-plan-")
	if err != nil {
		return p, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, out := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "plan.svg")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return p, err
	}
	args := []string{"plan", path, "--svg", out, "--by-arithmetic"} // to look measures nothing
	ctx, cancel := context.WithTimeoutCause(ctx, drawTime, fmt.Errorf("it takes more than %v; trainer plan draws it without such a bound", drawTime))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.WaitDelay = dir, time.Second
	c.Env = drawEnvironment(os.Environ())
	var table, said bounded
	c.Stdout, c.Stderr = &table, &said
	runtime.LockOSThread() // its end would be that of the process
	defer runtime.UnlockOSThread()
	c.SysProcAttr = endsWithUs
	if err := c.Start(); err != nil {
		return p, err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchMemory(ctx, c.Process.Pid, drawMemory, end)
	}()
	err = c.Wait()
	cause := context.Cause(ctx)
	end(nil)
	<-watched
	switch {
	case err != nil && cause != nil:
		return p, cause
	case err != nil:
		return p, errors.New(drawFailure(said.String(), dir, err))
	}
	text, err := osfile.Read(out, mostSVG+1)
	switch {
	case err != nil:
		return p, err
	case len(text) > mostSVG:
		return p, errors.New("the picture is too large; trainer plan --svg draws it into a file")
	}
	return ui.Picture{SVG: strings.ToValidUTF8(string(text), "?"), Table: strings.ToValidUTF8(table.String(), "?")}, nil
}

// drawEnvironment is an environment without keys of a config.
func drawEnvironment(all []string) []string {
	list := slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "BERTH_") && !slices.Contains(passed, name) || name == "GOMEMLIMIT"
	})
	return append(list, fmt.Sprintf("GOMEMLIMIT=%d", drawMemory/2))
}

// watchMemory calls end once a process takes more memory, in bytes. It returns then, or when ctx ends.
func watchMemory(ctx context.Context, pid int, most int64, end func(error)) {
	tick := time.NewTicker(drawLook)
	defer tick.Stop()
	for memoryOf(pid) <= most {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	end(fmt.Errorf("planning takes more than the %s of memory that the page gives it; trainer plan draws it without such a bound", units.Bytes(most)))
}

// drawFailure is what a process said that could not draw: the last lines, without its folder.
func drawFailure(said, dir string, err error) string {
	const most = 600
	said = strings.TrimSpace(strings.ReplaceAll(said, dir+string(filepath.Separator), ""))
	said = strings.TrimPrefix(said, "trainer: ")
	if said == "" {
		return err.Error()
	}
	if len(said) > most {
		said = said[:most] + "…"
	}
	return strings.ToValidUTF8(said, "?")
}

// bounded keeps the first bytes that are written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), mostPlan-b.Len())])
	return len(p), nil
}
