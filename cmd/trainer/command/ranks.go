package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/runs"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/ranks/mpi"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/internal/units"
)

// launched is what the launcher of this process says.
func launched() (ranks.Launch, error) {
	l, err := mpi.Launched()
	switch {
	case err == nil:
		return l, nil
	case l.Rank > 0: // another one tells it
		return l, silentError{err, cli.ExitUsage}
	}
	return l, cli.Usage(err)
}

// The commands that several processes may run at once: alone neither read nor write a run, and together have them act
// as one.
var (
	alone    = []string{"help", "version", "completion"}
	together = []string{"train", "resume", "plan", "bench"}
)

// checkRanks refuses a command that was started as several processes which were to work together: each would do all
// of the work, in the same run folder.
func checkRanks(c *cobra.Command, stop *signals.Stop) error {
	if slices.Contains(alone, c.Name()) || slices.Contains(together, c.Name()) && c.Parent() == c.Root() {
		return nil
	}
	l, err := launched()
	if err != nil || l.Size < 2 {
		return err
	}
	err = cli.Usagef("%s has started %d processes (%s), and of trainer's commands train, resume, plan and bench alone work with several: start one, or set BERTH_MPI=off, and each goes by itself",
		l.By, l.Size, l.Variable)
	all, failed := joinRanks(c, stop, 0)
	if failed != nil { // each tells it
		return err
	}
	err = all.Agree(c.Context(), "its command", err)
	if failed := all.Close(); failed != nil {
		return failed
	}
	if all.Rank() > 0 {
		return silentError{err, exitCode(err)}
	}
	return err
}

// silentError is an error that another process tells, or that was told already.
type silentError struct {
	error
	code int
}

// joinRanks meets the other processes of a command; nil: there are none. Its error is told already where another process tells it.
func joinRanks(c *cobra.Command, stop *signals.Stop, timeout time.Duration) (*berth.Ranks, error) {
	tell := func(text string) { cli.Tell(c, c.ErrOrStderr(), text) }
	all, err := berth.JoinRanks(c.Context(), berth.RanksOptions{
		Program: build.Revision(), Timeout: timeout, Waiting: tell, Lost: func(err error) {
			stop.Silent() // the launcher may send one to end this process
			tell(err.Error())
		},
		Text:    func(err error) string { return cli.Advised(err).Error() },
		IsUsage: func(err error) bool { return cli.ExitCode(err) == cli.ExitUsage },
	})
	if err == nil {
		return all, nil
	}
	l, _ := launched() // which JoinRanks has asked, too
	if v, ok := errors.AsType[*berth.RanksVerdict](err); ok && l.Rank > 0 {
		return nil, silentError{err, exitCode(v)}
	} else if ok {
		return nil, v
	}
	if wrong := errors.Is(err, ranks.ErrLibrary) || errors.Is(err, ranks.ErrLaunch); wrong && l.Rank > 0 && l.Local == l.Size { // as for rank 0 on the same machine
		return nil, silentError{err, exitCode(err)}
	}
	switch {
	case l.Rank > 0 && c.Context().Err() != nil: // rank 0 has had the signal, too
		return nil, silentError{err, exitCode(err)}
	case l.Rank > 0:
		time.Sleep(time.Second) // if rank 0 says the same, its launcher may end this process meanwhile
	}
	return nil, fmt.Errorf("rank %d: %w", l.Rank, err)
}

// join meets the other processes of the run, if there are any.
func (t *training) join(c *cobra.Command) error {
	all, err := joinRanks(c, t.stop, t.timeout)
	if err != nil || all == nil {
		return err
	}
	if err := all.Agree(c.Context(), "its command", nil); err != nil { // of another rank
		return errors.Join(err, all.Close())
	}
	t.ranks = all
	t.stop.User2()
	t.stop.Later(mostKill)
	if all.Rank() > 0 {
		t.quiet, t.verbose = true, false
		t.stop.Silent()
		c.SetErr(&prefixed{to: c.ErrOrStderr(), prefix: all.Name(all.Rank()) + ": "})
	}
	return nil
}

// mostKill is how long a launcher takes to kill processes that it has sent a signal.
const mostKill = 2500 * time.Millisecond

// ranksNote says who trains together.
func (t *training) ranksNote() string {
	return fmt.Sprintf("%s on %s, by %s", units.Count(t.ranks.Size(), "rank"), units.Count(t.ranks.Machines(), "machine"), t.ranks.Carrier())
}

// agree has all ranks hear of an error of one.
func (t *training) agree(ctx context.Context, what string, err error, facts ...crew.Fact) error {
	if t.ranks == nil {
		return err
	}
	return t.ranks.Agree(ctx, what, err, facts...)
}

// chosen is the folder that rank 0 has chosen, and the text of the config there.
type chosen struct {
	Dir    string
	Resume bool
	Path   string // of the config
	Text   []byte
}

// loadRun reads the config of the run in a folder, which rank 0 does for all.
func (t *training) loadRun(c *cobra.Command, f *runs.ConfigFlags, dir string) (*configs.Config, error) {
	if t.ranks == nil {
		return f.LoadRun(c, dir)
	}
	var x chosen
	var err error
	if t.ranks.Rank() == 0 {
		x.Path, x.Text, err = f.RunText(c, dir)
	}
	if err = t.ranks.Decide(c.Context(), "the run folder", err); err == nil {
		err = t.share(c.Context(), "the run's config", &x)
	}
	if err != nil {
		return nil, err
	}
	cfg, err := f.ParseRun(c, x.Path, x.Text)
	return cfg, t.agree(c.Context(), "its config", err)
}

// share gives all ranks what rank 0 has in v, a pointer.
func (t *training) share(ctx context.Context, what string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		b, err = t.ranks.Share(ctx, what, b)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// together runs a command on all ranks that there are, and ends them. An error that all have is told by rank 0; one that
// this rank has alone ends the others, once it is told.
func (t *training) together(c *cobra.Command, run func() error) error {
	if err := t.join(c); err != nil || t.ranks == nil {
		if err != nil {
			return err
		}
		return run()
	}
	defer func() {
		if p := recover(); p != nil { // MPICH's mpirun would leave the others
			fmt.Fprintf(c.ErrOrStderr(), "panic: %v\n\n%s", p, debug.Stack())
			t.ranks.Abort(exitPanic)
		}
	}()
	err := run()
	_, all := errors.AsType[*berth.RanksVerdict](err)
	if err != nil && !all && !errors.Is(err, berth.ErrStopped) {
		t.stop.Silent()
		if !t.ranks.Tell(err) {
			cli.Tell(c, c.ErrOrStderr(), cli.Advised(err).Error())
		}
		t.ranks.Abort(t.ranks.Code(err)) // does not return
	}
	if failed := t.ranks.Close(); err == nil {
		err = failed
	}
	if err != nil && t.ranks.Rank() > 0 {
		return silentError{err, exitCode(err)}
	}
	return err
}

// exitPanic is Go's exit code after a panic.
const exitPanic = 2

// prefixed puts words before each line.
type prefixed struct {
	to     io.Writer
	prefix string
	within bool // a line has begun
}

// Write implements io.Writer.
func (p *prefixed) Write(b []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(b) {
		if !p.within {
			out = append(out, p.prefix...)
		}
		out = append(out, line...)
		p.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := p.to.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
