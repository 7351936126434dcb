package machines

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// TestSlurm trains with srun and both MPIs. A job whose time ends saves, is queued again, goes on, and has the weights
// of one process.
func TestSlurm(t *testing.T) {
	testall.Long(t)
	c := newCluster(t)
	c.starts()
	script, err := filepath.Abs("slurm.sh")
	if err != nil {
		t.Fatal(err)
	}

	// Slurm sends the signal 179 s before the end, which it does when it next looks, twice a minute.
	c.epochs("my.yaml", 9999)
	out := c.run("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--time=3", "--signal=TERM@179", "--output=my.log",
		script, "my.yaml", "--run", "my", "--allow-changed")
	id := strings.TrimSpace(out)
	c.until("the ranks train", func() bool {
		b, err := os.ReadFile(filepath.Join(c.dir, "my", "metrics.jsonl"))
		return err == nil && len(b) > 0
	})
	// One that stands still makes all wait meanwhile, so that what they have trained is soon trained again below.
	still := c.process(id, 1)
	if still == 0 {
		t.Fatal("rank 1 has no process")
	}
	if err := syscall.Kill(still, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.run("scontrol", "update", "PartitionName=all", "State=INACTIVE")
	c.until("the job is queued again", func() bool {
		if hasTerm(still) { // Slurm sends SIGCONT, too
			_ = syscall.Kill(still, syscall.SIGCONT)
		}
		j := c.job(id)
		return j["JobState"] == "PENDING" && j["Restarts"] == "1"
	})
	c.until("all of it has ended", func() bool { // Slurm would take a late end for that of the job that has begun again
		log, err := os.ReadFile(filepath.Join(c.dir, "slurmd.log"))
		return err == nil && strings.Contains(string(log), "["+id+".batch] done with job")
	})
	saved := c.report("my")
	log, err := os.ReadFile(filepath.Join(c.dir, "my.log"))
	if err != nil || !strings.Contains(string(log), "Exited with exit code 75") || saved.Finished {
		t.Errorf("%+v; %v:\n%s", saved, err, log)
	}

	epochs := saved.Steps/45 + 2
	c.epochs("my.yaml", epochs)
	c.run("scontrol", "update", "PartitionName=all", "State=UP")
	// Of itself it would wait for two minutes. If it began within the second of its end, Slurm would take it for what has
	// ended. With more time there is no second signal.
	c.run("scontrol", "update", "JobId="+id, "TimeLimit=60", "StartTime=now+2")
	c.run("trainer", "train", "my.yaml", "--run", "one", "--quiet")
	c.until("the job ends", func() bool {
		state := c.job(id)["JobState"]
		return state != "PENDING" && state != "RUNNING" && state != "COMPLETING"
	})
	if one, my := c.report("one"), c.report("my"); my != one || !my.Finished {
		t.Errorf("the job has %+v, one process %+v", my, one)
	}
}

// starts trains with what srun starts by itself.
func (c *cluster) starts() {
	c.t.Helper()
	c.epochs("short.yaml", 1)
	c.run("trainer", "train", "short.yaml", "--run", "short", "--quiet")
	want := c.report("short")
	for mpi, library := range map[string]string{"pmix": "Open MPI", "pmi2": "MPICH"} {
		out := c.run("srun", "--mpi="+mpi, "-n", "2", "trainer", "train", "short.yaml", "--run", mpi)
		if got := c.report(mpi); got != want || !strings.Contains(out, "2 ranks on 1 machine, by "+library) {
			c.t.Errorf("%s: %+v, one process has %+v:\n%s", mpi, got, want, out)
		}
	}
	if out, err := c.try("srun", "--mpi=none", "-n", "2", "trainer", "train", "short.yaml", "--run", "none"); err == nil || !strings.Contains(out, "give srun --mpi=pmix") {
		c.t.Errorf("without MPI: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "none")); !os.IsNotExist(err) {
		c.t.Errorf("a launch that was refused has a run folder: %v", err)
	}
}

// hasTerm reports whether a process that stands still has got SIGTERM.
func hasTerm(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false // it has ended
	}
	_, text, _ := strings.Cut(string(b), "ShdPnd:")
	text, _, _ = strings.Cut(text, "\n")
	signals, _ := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	return signals&(1<<(syscall.SIGTERM-1)) != 0
}
