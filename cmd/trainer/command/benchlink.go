package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/executor/ranks/mpi"
)

// benchLink measures how fast ranks send to each other. Rank 0 prints.
func benchLink(c *cobra.Command, names []string, timeout time.Duration, asJSON bool) error {
	if len(names) > 0 {
		return cli.Usagef("--link measures no workload: leave %s out", names[0])
	}
	launch, err := launched()
	if err != nil {
		return err
	}
	if launch.Size < 2 {
		return cli.Usagef("--link measures between processes: start several, as in mpirun -n 2 trainer bench --link")
	}
	world, err := mpi.Meet(c.Context(), launch)
	if err != nil {
		return err
	}
	l, err := bench.MeasureLink(c.Context(), world, timeout)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "rank %d: %v\n", world.Rank(), err)
		world.Abort(1)
	}
	if world.Rank() == 0 {
		err = printResults(c, l, asJSON, bench.WriteLink)
	}
	return errors.Join(err, world.Close())
}
