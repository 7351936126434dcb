package executor_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/mpi"
	"github.com/berth-ml/berth/internal/testall"
)

// rankVariable names the job of a process that a launcher has started for a test, and resultVariable the folder of
// files for what the processes have trained: launchers mix what they print.
const (
	rankVariable   = "BERTH_TEST_RANK"
	resultVariable = "BERTH_TEST_RESULT"
)

// hashes are lines about variables, in their order.
func hashes(vars map[string][]byte) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		lines = append(lines, fmt.Sprintf("%s %x\n", name, sha256.Sum256(vars[name])))
	}
	return lines
}

// playRank trains a job on one of several processes, and writes the variables that it holds for all.
func playRank(name string) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	vars, err := trainRank(ctx, dealtJobs()[name])
	if err == nil {
		file := filepath.Join(os.Getenv(resultVariable), fmt.Sprint(os.Getpid()))
		err = os.WriteFile(file, []byte(strings.Join(hashes(vars), "")), 0o600)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 3
	}
	return 0
}

func trainRank(ctx context.Context, s dealt) (vars map[string][]byte, err error) {
	launch, err := ranks.Launched(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	world, err := mpi.Open(ctx, launch, nil)
	if err != nil {
		return nil, err
	}
	devs, err := openDevices("cpu", len(s.of), 1)
	if err != nil {
		return nil, err
	}
	w, err := newWorld(s.job, devs, s.of, "1f1b")
	if err != nil {
		return nil, err
	}
	w.links[launch.Rank], w.ranks = world, w.ranks[launch.Rank:launch.Rank+1]
	own := w.ranks[0]
	if err = own.load(); err == nil {
		err = own.run(ctx)
	}
	if err == nil {
		vars, err = own.vars(ctx)
	}
	if err != nil {
		fmt.Println("error:", err)
		world.Abort(3)
	}
	return vars, errors.Join(w.close(), world.Close())
}

// TestRanksTrainTheSameByMPI starts processes with each MPI, which have the variables of one process.
func TestRanksTrainTheSameByMPI(t *testing.T) {
	testall.Long(t)
	for command, args := range map[string][]string{"mpirun.openmpi": {"--bind-to", "none", "--oversubscribe"}, "mpirun.mpich": nil} {
		for _, name := range []string{"two that share updates", "three replicas, unaligned", "stages, two of a rank"} {
			t.Run(command+", "+name, func(t *testing.T) {
				if _, err := exec.LookPath(command); err != nil {
					if os.Getenv("TEST_MPI") == "required" {
						t.Fatal(err)
					}
					t.Skipf("%s is not installed (Debian's packages openmpi-bin and mpich)", command)
				}
				s := dealtJobs()[name]
				alone := s.job
				alone.replicas, alone.shard = 0, ""
				want, err := plain.trained(alone)
				if err != nil {
					t.Fatal(err)
				}
				c := exec.CommandContext(short(t), command, append(slices.Clone(args), "-n", fmt.Sprint(slices.Max(s.of)+1), os.Args[0])...)
				dir := t.TempDir()
				c.Env = append(os.Environ(), rankVariable+"="+name, resultVariable+"="+dir, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				var got strings.Builder
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					got.Write(b)
				}
				lines := hashes(want)
				if name == "two that share updates" { // each rank has its ranges of the optimizer's state
					lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "/") })
				}
				for _, line := range lines {
					if !strings.Contains(got.String(), line) {
						t.Errorf("no rank has the %sof one process, in\n%s", line, got.String())
					}
				}
			})
		}
	}
}
