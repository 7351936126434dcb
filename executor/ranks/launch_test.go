package ranks

import (
	"errors"
	"strings"
	"testing"
)

// TestLaunched: the environments of the launchers, as they are, and as they are wrong.
func TestLaunched(t *testing.T) {
	for _, c := range []struct {
		env        string
		rank, size int
		local      int
		err        string
	}{
		{"", 0, 1, 0, ""},
		{"SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", 0, 1, 0, ""},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=2", 2, 4, 2, ""},
		{"PMI_RANK=0 PMI_SIZE=3 MPI_LOCALNRANKS=3", 0, 3, 3, ""},
		{"PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2", 1, 2, 0, ""},
		{"PMI_RANK=0", 0, 0, 0, "has set PMI_RANK, and not PMI_SIZE"},
		{"PMI_RANK=0 PMI_SIZE=two", 0, 0, 0, `PMI_SIZE="two"`},
		{"PMI_RANK=3 PMI_SIZE=3", 0, 0, 0, "rank 3 of 3"},
		{"SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1", 0, 0, 0, "give srun --mpi=pmix"},
	} {
		env := map[string]string{}
		for _, x := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(x, "=")
			env[name] = value
		}
		got, err := Launched(func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		})
		switch {
		case c.err != "":
			if !errors.Is(err, ErrLaunch) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.env, err, c.err)
			}
		case err != nil || got.Rank != c.rank || got.Size != c.size || got.Local != c.local:
			t.Errorf("%s: rank %d of %d, %d local, %v", c.env, got.Rank, got.Size, got.Local, err)
		}
	}
}
