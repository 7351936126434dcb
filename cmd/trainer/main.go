// Command trainer trains models from YAML configs. Each subcommand has a file
// of its own; what they do is in package berth.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2  // of the command line or a config
	exitStopped = 75 // stopped by a signal, saved: run again with --resume
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer onSignal(cancel, stderr)()
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	code := exitCode(err)
	switch {
	case code == exitFailure && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "trainer: interrupted")
	case err != nil:
		fmt.Fprintf(stderr, "trainer: %v\n", err)
	}
	return code
}

// onSignal cancels at the first SIGINT or SIGTERM, so that the run saves and
// ends, and exits at the second. The returned function undoes it.
func onSignal(cancel func(), stderr io.Writer) (undo func()) {
	c, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-c:
			fmt.Fprint(stderr, overBar(stderr))
			fmt.Fprintln(stderr, "stopping once what is under way is finished and saved; once more to stop at once")
			cancel()
		case <-done:
			return
		}
		select {
		case <-c:
			os.Exit(exitFailure)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// overBar is what takes a progress bar, and the ^C after it, off a terminal's
// line.
func overBar(w io.Writer) string {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "\r\x1b[K"
	}
	return ""
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, berth.ErrStopped):
		return exitStopped
	case errors.As(err, &usage), errors.Is(err, configs.ErrInvalid), errors.Is(err, configs.ErrNotFound), berth.IsUsage(err):
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "trainer",
		Short: "Train models with weights that stay where they are used",
		Long: "trainer reads a YAML config, builds the model, splits it over the devices it finds,\n" +
			"copies the weights in once and trains with everything resident there.",
		Example:       "  trainer train digits\n  trainer plan shakespeare --devices cpu:2",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %s --help", err, c.CommandPath())}
	})
	group(root)
	root.AddCommand(trainCommand(), resumeCommand(), evalCommand(), predictCommand(), planCommand(),
		configsCommand(), devicesCommand(), checkpointsCommand(), benchCommand())
	return root
}

// group makes a command that only holds others: alone it prints its help, and
// a word that is none of them is a mistake.
func group(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := "see " + c.CommandPath() + " --help"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("did you mean %q?", near[0])
		}
		return usageError{fmt.Errorf("%s has no command %q; %s", c.CommandPath(), args[0], hint)}
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// exactArgs asks for n arguments, and says what they are.
func exactArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usageError{fmt.Errorf("%d arguments given, %d needed: %s; see %s --help", len(args), n, c.UseLine(), c.CommandPath())}
	}
}
