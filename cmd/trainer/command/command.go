// Package command is the command trainer as a package. A program whose main calls
// [Main] is a trainer, together with all that the program registers: ops, layers,
// losses, optimizers, schedules and data sets.
//
//	package main
//
//	import (
//		"github.com/berth-ml/berth/cmd/trainer/command"
//
//		_ "example.com/mine/layers" // registers its layers in an init function
//	)
//
//	func main() { command.Main() }
//
// Each subcommand has a file of its own (those of checkpoints in
// cmd/trainer/internal/checkpoints); the work is done by package berth.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	_ "github.com/berth-ml/berth/cmd/trainer/internal/addresses" // first
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// Main runs the process's arguments as a command and ends the process with its
// exit code. Help and messages have the name of the program's file.
func Main() {
	stop := &signals.Stop{}
	ctx, _ := stop.Watch(context.Background(), console.NewStream(console.NewProse(os.Stderr))) // to the end of the process: a late signal must not change its exit code
	ballast := prepareHeap()
	code := runAs(programName(os.Args[0]), ctx, stop, os.Args[1:], os.Stdout, os.Stderr)
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// longestError is the most bytes of an error that are printed: two screens.
const longestError = 8 << 10

// programName is the name of the program at a path.
func programName(path string) string {
	name := filepath.Base(path)
	if ext := filepath.Ext(name); strings.EqualFold(ext, ".exe") {
		name = strings.TrimSuffix(name, ext)
	}
	if name == "" || strings.ContainsAny(name, " \t/\\") || name == "." { // help lists it before the commands
		return "trainer"
	}
	return name
}

// run is Main of the program trainer without the process: it returns the exit code. ctx
// ends as stop says.
func run(ctx context.Context, stop *signals.Stop, args []string, stdout, stderr io.Writer) int {
	return runAs("trainer", ctx, stop, args, stdout, stderr)
}

// runAs is run for a program of any name.
func runAs(name string, ctx context.Context, stop *signals.Stop, args []string, stdout, stderr io.Writer) int {
	out, errs := console.NewStream(stdout), console.NewStream(console.NewProse(stderr))
	defer console.FailOnClosedPipe()()
	cmd := newRoot(stop)
	cli.Rename(cmd, name)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := cmd.ExecuteContext(ctx)
	if lost := out.Err(); lost != nil && (err == nil || errors.Is(err, lost)) {
		err = fmt.Errorf("standard output: %w", console.Cause(lost))
	}
	if out.Err() != nil && signals.ClosedPipe(err) {
		err = cli.Unread(err)
	}
	code := exitCode(err)
	var told silentError
	stop.Done(code)
	switch {
	case code == cli.ExitPipe, errors.As(err, &told):
		return code
	case code != cli.ExitStopped && ctx.Err() != nil && errors.Is(err, context.Canceled):
		cli.Tell(cmd, errs, "interrupted")
		return cli.ExitFailure
	case err != nil:
		cli.Tell(cmd, errs, text.Short(cli.Advised(err).Error(), longestError))
	}
	return code
}
