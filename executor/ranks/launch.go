package ranks

import (
	"fmt"
	"strconv"
)

// Launch is what a launcher tells a process that it has started.
type Launch struct {
	By         string   // what has started it: mpirun or srun
	Rank, Size int      // of this process among all
	Local      int      // processes on this machine; 0: the launcher does not say
	Variable   string   // by which Size is known
	Libraries  []string // files of MPI that fit the launcher, in the order in which they are tried
}

// The names of MPI's libraries, as the system's loader finds them.
const (
	openMPI = "libmpi.so.40"    // Open MPI 3 to 5
	mpich   = "libmpi.so.12"    // MPICH, Intel MPI, MVAPICH and Cray
	debian  = "libmpich.so.12"  // Debian's MPICH
	mpi5    = "libmpi_abi.so.0" // the ABI that MPI 5 defines
)

// launchers are those that are known, by the variables that they set. The first that is there counts.
var launchers = []struct {
	by, rank, size, local string
	libraries             []string
}{
	{"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", []string{openMPI, mpi5}},
	{"mpirun of MPICH, or srun --mpi=pmi2", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", []string{mpich, debian, mpi5}},
	{"srun", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE", []string{openMPI, mpich, debian, mpi5}},
}

// Launched is what the environment says of this process. Without a launcher, it is the
// only one: Size is 1. lookup is os.LookupEnv. With an error, Rank is that of the process among those
// that have the same error, if it is known.
func Launched(lookup func(string) (string, bool)) (Launch, error) {
	for _, l := range launchers {
		if _, ok := lookup(l.rank); !ok {
			continue
		}
		out := Launch{By: l.by, Variable: l.size, Libraries: l.libraries}
		for _, x := range []struct {
			name string
			to   *int
			must bool
		}{{l.rank, &out.Rank, true}, {l.size, &out.Size, true}, {l.local, &out.Local, false}} {
			text, ok := lookup(x.name)
			n, err := strconv.Atoi(text)
			switch {
			case err == nil && n >= 0:
				*x.to = n
			case x.must && !ok:
				return Launch{}, fmt.Errorf("%w: %s has set %s, and not %s", ErrLaunch, l.by, l.rank, x.name)
			case x.must:
				return Launch{}, fmt.Errorf("%w: %s=%q of %s is no number", ErrLaunch, x.name, text, l.by)
			}
		}
		if out.Rank >= out.Size {
			return Launch{}, fmt.Errorf("%w: rank %d of %d (%s, %s)", ErrLaunch, out.Rank, out.Size, l.rank, l.size)
		}
		return out, nil
	}
	if text, ok := lookup("SLURM_STEP_NUM_TASKS"); ok && text != "1" {
		procid, _ := lookup("SLURM_PROCID")
		rank, _ := strconv.Atoi(procid) // 0 if it is not known
		return Launch{Rank: rank}, fmt.Errorf("%w: srun has started %s processes, and nothing by which they find each other: give srun --mpi=pmix, or --mpi=pmi2 with MPICH", ErrLaunch, text)
	}
	return Launch{Size: 1}, nil
}
