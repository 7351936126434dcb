// Package command is the command trainer as a package. A program whose main calls
// Main is a trainer, together with all that the program registers.
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

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// Main runs the process's arguments as a command and ends the process with its
// exit code.
func Main() {
	limitHeap()
	stop := &signals.Stop{}
	ctx, _ := stop.Watch(context.Background(), console.NewStream(os.Stderr)) // to the end of the process: a late signal must not change its exit code
	os.Exit(run(ctx, stop, os.Args[1:], os.Stdout, os.Stderr))
}

// longestError is the most bytes of an error that are printed: two screens.
const longestError = 8 << 10

// run is Main without the process: it returns the exit code. ctx ends as stop says.
func run(ctx context.Context, stop *signals.Stop, args []string, stdout, stderr io.Writer) int {
	out, errs := console.NewStream(stdout), console.NewStream(stderr)
	defer console.FailOnClosedPipe()()
	cmd := newRoot(stop)
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
	code := cli.ExitCode(err)
	stop.Done(code)
	switch {
	case code == cli.ExitPipe:
		return code
	case code != cli.ExitStopped && ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(errs, "trainer: interrupted")
		return cli.ExitFailure
	case err != nil:
		fmt.Fprintf(errs, "trainer: %s\n", text.Short(cli.Advised(err).Error(), longestError))
	}
	return code
}
