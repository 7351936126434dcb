package command

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/mpi"
)

// mpiVariable names the file of the MPI library; mpiOff has a process go by itself, whatever has started it.
const (
	mpiVariable = "BERTH_MPI"
	mpiOff      = "off"
)

// launched is what the launcher of this process says.
func launched() (ranks.Launch, error) {
	if os.Getenv(mpiVariable) == mpiOff {
		return ranks.Launch{Size: 1}, nil
	}
	l, err := ranks.Launched(os.LookupEnv)
	if err != nil {
		return l, cli.Usage(err)
	}
	return l, nil
}

// alone are the commands that several processes may run at once, as they neither read nor write a run.
var alone = []string{"help", "version", "completion"}

// checkRanks refuses a command that was started as several processes which were to work together: each would do all
// of the work, in the same run folder.
func checkRanks(c *cobra.Command) error {
	if slices.Contains(alone, c.Name()) {
		return nil
	}
	l, err := launched()
	if err != nil || l.Size < 2 {
		return err
	}
	if f := c.Flags().Lookup("link"); f != nil && f.Value.String() == "true" {
		return nil
	}
	return cli.Usagef("%s has started %d processes (%s), and of trainer's commands bench --link alone works with several: start one, or set %s=%s, and each goes by itself",
		l.By, l.Size, l.Variable, mpiVariable, mpiOff)
}

// meetWithin is how long ranks wait for each other at the start.
const meetWithin = 10 * time.Second

// openWorld loads MPI, and meets the other ranks.
func openWorld(ctx context.Context, launch ranks.Launch) (*mpi.World, error) {
	ctx, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	var files []string
	if file := os.Getenv(mpiVariable); file != "" {
		files = []string{file}
	}
	return mpi.Open(ctx, launch, files)
}
