package mpi

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// variable names the file of the MPI library; off has a process go by itself, whatever has started it.
const (
	variable = "BERTH_MPI"
	off      = "off"
)

// Launched is what the launcher of this process says. Size is 1 without one.
func Launched() (ranks.Launch, error) {
	if os.Getenv(variable) == off {
		return ranks.Launch{Size: 1}, nil
	}
	return ranks.Launched(os.LookupEnv)
}

// meetWithin is how long ranks wait for each other at the start. On a machine with twenty programs for two processors, MPICH took
// more than ten seconds.
const meetWithin = 30 * time.Second

// Meet is Open with the library that the environment variable BERTH_MPI names, if it does, and a limit of time.
func Meet(ctx context.Context, launch ranks.Launch) (*World, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, meetWithin, fmt.Errorf("they have not come within %v: they hang, or load another MPI (BERTH_MPI)", meetWithin))
	defer cancel()
	var files []string
	if file := os.Getenv(variable); file != "" {
		files = []string{file}
	}
	return Open(ctx, launch, files)
}
