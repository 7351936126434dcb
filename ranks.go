package berth

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/ranks/mpi"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/prompt"
)

// Ranks are the processes of one run, which a launcher such as mpirun or srun has started: see [JoinRanks]. The methods
// are those of [crew.Crew].
type Ranks = crew.Crew

// RanksVerdict is an error that all ranks have, since one has failed before the first step, or two differ in what they
// were given. Rank 0 tells the user; the others end with the same exit code.
type RanksVerdict = crew.Verdict

// RanksStopped is the kind of a verdict by which nothing is wrong: starting again goes on.
const RanksStopped = crew.Stopped

// RanksOptions are the options of JoinRanks. The zero value is for a program of which all ranks run the same file.
type RanksOptions struct {
	// Program is compared between ranks, beside what Go calls the file's build ID: the version of the program; "": that of Berth, and
	// of the program's module.
	Program string
	// Timeout is how long a rank may be silent before all end; 0: 5 minutes. A run's distributed.timeout takes its place.
	Timeout time.Duration
	// Waiting is told on rank 0 whom all wait for; nil: nobody is.
	Waiting func(text string)
	// Lost is told on one rank, usually rank 0, why all end, since one has failed or is silent. The process then ends with
	// an exit code: 75 where starting again helps. nil: nobody is told.
	Lost func(err error)
	// Text words an error of a rank that has failed, which Lost is told on rank 0; nil: its Error does.
	Text func(error) string
	// IsUsage reports whether an error is a mistake in a config or a call, beside those of [IsUsage]; nil: no other is.
	IsUsage func(error) bool
}

// JoinRanks meets the other processes that the launcher of this one has started: give the result to [OpenOptions].Ranks.
// It is nil where this process is alone, and no MPI is loaded then. All ranks close it in the end, unless one has failed
// alone: that one calls Tell, tells the user why unless Tell has done so, and calls Abort, which ends all.
//
//	all, err := berth.JoinRanks(ctx, berth.RanksOptions{})
//	…
//	run, err := berth.Open(ctx, config, berth.OpenOptions{Ranks: all})
func JoinRanks(ctx context.Context, o RanksOptions) (*Ranks, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	launch, err := mpi.Launched()
	if err != nil || launch.Size < 2 {
		return nil, err
	}
	threads := prompt.Threads()
	world, err := mpi.Meet(ctx, launch)
	if err != nil {
		return nil, err
	}
	space, _ := os.Readlink("/proc/self/ns/pid") // "" where the system has no such thing
	name, _ := os.Hostname()                     // a machine without one is called by the rank alone
	free, _ := host.Available()
	c, err := crew.Meet(ctx, world, crew.Options{
		Member:  crew.Member{Host: name, Program: strings.TrimSpace(cmp.Or(o.Program, build.Revision()) + " " + build.ID()), Free: free, Cores: allowedCores(), Threads: threads, Process: os.Getpid(), Space: space},
		Carrier: world.Library(), Timeout: o.Timeout, Waiting: o.Waiting, Lost: o.Lost, KindOf: o.kindOf, Text: o.Text,
	})
	if err != nil {
		return nil, errors.Join(err, closeRanks(world, err))
	}
	return c, nil
}

// closeRanks ends MPI where all ranks have the same error; otherwise MPI is not asked again.
func closeRanks(w *mpi.World, err error) error {
	if _, all := errors.AsType[*crew.Verdict](err); all {
		return w.Close()
	}
	return nil
}

// kindOf is what an error is for whoever has started the ranks.
func (o *RanksOptions) kindOf(err error) crew.Kind {
	switch {
	case errors.Is(err, ErrStopped), errors.Is(err, ranks.ErrCarrier), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return crew.Stopped
	case IsUsage(err), o.IsUsage != nil && o.IsUsage(err):
		return crew.Mistake
	}
	return crew.Failed
}

// allowedCores are the cores that this process may use; "" where the system does not say.
func allowedCores() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}
