// Command trainer trains models from YAML configs. Each subcommand has a file of
// its own (those of checkpoints in internal/checkpoints); the work is done by
// package berth.
package main

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

func main() {
	limitHeap()
	stop := &signals.Stop{}
	ctx, _ := stop.Watch(context.Background(), console.NewStream(os.Stderr)) // to the end of the process: a late signal must not change its exit code
	os.Exit(run(ctx, stop, os.Args[1:], os.Stdout, os.Stderr))
}

// longestError is the most bytes of an error that are printed: two screens.
const longestError = 8 << 10

// run is main without the process: it returns the exit code. ctx ends as stop says.
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
