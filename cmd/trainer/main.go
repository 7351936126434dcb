// Command trainer trains models from YAML configs. Each subcommand has a file
// of its own; what they do is in package berth.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/berth-ml/berth"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2  // of the command line or a config
	exitStopped = 75 // stopped by a signal or --max-time, and saved if there was anything: resume it, or run it again
)

// started is when the process began: --max-time counts from then.
var started = time.Now()

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(withStopping(context.Background()))
	defer cancel()
	defer onSignal(ctx, cancel, stderr)()
	cmd := newRoot()
	cmd.SetArgs(args)
	out := &printed{Writer: stdout}
	cmd.SetOut(out)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("standard output: %w", out.err)
	}
	code := exitCode(err)
	switch {
	case code == exitFailure && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "trainer: interrupted")
	case err != nil:
		fmt.Fprintf(stderr, "trainer: %v\n", err)
	}
	return code
}

// printed is standard output, and remembers the first error of writing to it:
// what was printed is then not whole.
type printed struct {
	io.Writer
	err error
}

func (p *printed) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// terminal is the terminal that w writes to, nil where it is none.
func terminal(w io.Writer) *os.File {
	if p, ok := w.(*printed); ok {
		w = p.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// onSignal cancels at the first SIGINT, SIGTERM or SIGHUP, so that the run
// saves and ends, and exits at the second. What nohup set to be ignored stays
// so. The returned function undoes it.
func onSignal(ctx context.Context, cancel func(), stderr io.Writer) (undo func()) {
	c, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		select {
		case <-c:
			fmt.Fprint(stderr, overBar(stderr))
			fmt.Fprintf(stderr, "%s; once more to stop at once\n", atSignal(ctx).Load())
			cancel()
		case <-done:
			return
		}
		for {
			select {
			case s := <-c:
				if s != syscall.SIGHUP { // a closed terminal's may come twice: from the system and from the shell
					fmt.Fprintf(stderr, "%s%s\n", overBar(stderr), atOnce(atSignal(ctx).Load()))
					os.Exit(exitFailure)
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// atOnce is what is said at the second signal, by what the first did.
func atOnce(first any) string {
	if first == saves {
		return "stopped at once: what was saved so far is whole, what came since is lost"
	}
	return "stopped at once"
}

// overBar is what takes a progress bar, and the ^C after it, off a terminal's
// line.
func overBar(w io.Writer) string {
	if terminal(w) != nil {
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
	case errors.As(err, &usage), berth.IsUsage(err):
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
		var bad *pflag.InvalidValueError
		if errors.As(err, &bad) {
			err = fmt.Errorf("--%s %s: expected %s", bad.GetFlag().Name, bad.GetValue(), expected(bad.GetFlag().Value.Type()))
		}
		return usageError{fmt.Errorf("%w: see %s --help", err, c.CommandPath())}
	})
	group(root)
	root.AddCommand(trainCommand(), resumeCommand(), evalCommand(), predictCommand(), planCommand(),
		configsCommand(), devicesCommand(), checkpointsCommand(), benchCommand())
	return root
}

// expected words what a flag of a type takes.
func expected(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number of at least 0"
	case "float64":
		return "a number"
	case "duration":
		return "a time, such as 55m or 1h30m"
	case "bool":
		return "true or false"
	}
	return kind
}

// newFile refuses a file to be made that is there already, or that cannot be.
func newFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return usageError{fmt.Errorf("%s: %w: name a file that does not exist", path, fs.ErrExist)}
	}
	return berth.CheckOutput(path)
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

// oneOrTwoArgs asks for an argument, and leaves another to the user.
func oneOrTwoArgs(c *cobra.Command, args []string) error {
	if len(args) == 1 || len(args) == 2 {
		return nil
	}
	return usageError{fmt.Errorf("%d arguments given, 1 or 2 needed: %s; see %s --help", len(args), c.UseLine(), c.CommandPath())}
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
