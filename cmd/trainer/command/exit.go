package command

import (
	"errors"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/jobs/queue"
)

// exitCode is the exit code for an error of a command or of a run.
func exitCode(err error) int {
	var silent silentError
	var all *berth.RanksVerdict
	switch code := cli.ExitCode(err); {
	case code == cli.ExitPipe:
		return code
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &all) && all.Kind == berth.RanksStopped:
		return cli.ExitStopped
	case errors.Is(err, berth.ErrStopped), errors.Is(err, ranks.ErrCarrier):
		return cli.ExitStopped
	case berth.IsUsage(err), errors.Is(err, queue.ErrNoJob):
		return cli.ExitUsage
	default:
		return code
	}
}
