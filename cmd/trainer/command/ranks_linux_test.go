package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/internal/testall"
)

// failVariable says which rank fails, how and in which phase: "1 stop planning". pidVariable is a folder for the numbers of
// the processes.
const (
	failVariable = "TEST_RANK_FAILS"
	pidVariable  = "TEST_RANK_PIDS"
)

// phasesOfRanks are the phases of a training in their order, by a function that is called in each.
var phasesOfRanks = []struct{ name, call string }{
	{"joining", "mpi.Open("},
	{"planning", "train.Open("},
	{"copy-in", "train.(*attempt).begins("},
	{"a step", "train.(*loop).take("},
	{"an evaluation", "train.(*attempt).measure("},
	{"a save", "saver.(*Saver).write("},
	{"the end", "train.(*attempt).finish"},
}

func init() {
	misbehave = func() {
		if dir := os.Getenv(pidVariable); dir != "" {
			pid := strconv.Itoa(os.Getpid())
			if err := os.WriteFile(filepath.Join(dir, pid), nil, 0o600); err != nil {
				panic(err)
			}
		}
		rank, rest, _ := strings.Cut(os.Getenv(failVariable), " ")
		how, phase, _ := strings.Cut(rest, " ")
		if l, err := ranks.Launched(os.LookupEnv); rest != "" && err == nil && strconv.Itoa(l.Rank) == rank {
			go fail(how, phase)
		}
	}
}

// fail waits until the process is in a phase, or in a later one, and has it fail.
func fail(how, phase string) {
	from := 0
	for phasesOfRanks[from].name != phase {
		from++
	}
	text := make([]byte, 1<<20)
	for {
		stacks := string(text[:runtime.Stack(text, true)])
		for _, p := range phasesOfRanks[from:] {
			if !strings.Contains(stacks, p.call) {
				continue
			}
			switch how {
			case "kill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "stop":
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				return // others have ended meanwhile
			default:
				panic("as the test asks")
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// mpirun is a launcher of ranks.
type mpirun struct {
	command string
	args    []string
	setenv  func(name, value string) []string // for the ranks of the program that follows
	codes   []int                             // its exit codes after a kill or a panic of a rank, but 75
}

var mpiruns = map[string]mpirun{
	"openmpi": {"mpirun.openmpi", []string{"--bind-to", "none", "--oversubscribe"}, func(n, v string) []string { return []string{"-x", n + "=" + v} }, []int{2, 137}},
	"mpich":   {"mpirun.mpich", nil, func(n, v string) []string { return []string{"-env", n, v} }, []int{1, 2, 9, 15}},
}

// eachMPI runs a test with each launcher that is installed. Unless all tests are wanted, only with the first of them.
func eachMPI(t *testing.T, test func(t *testing.T, m mpirun)) {
	if testing.Short() {
		t.Skip("MPI starts for seconds")
	}
	ran := false
	for _, name := range []string{"openmpi", "mpich"} {
		t.Run(name, func(t *testing.T) {
			m := mpiruns[name]
			if _, err := exec.LookPath(m.command); err != nil {
				if os.Getenv("TEST_MPI") == "required" {
					t.Fatal(err)
				}
				t.Skipf("%s is not installed (Debian's packages openmpi-bin and mpich)", m.command)
			}
			if ran && !testall.Wanted() {
				t.Skip("takes longer: TEST_ALL=1 runs it")
			}
			ran = true
			test(t, m)
		})
	}
}

// rank is a program of one rank.
type rank struct {
	env  map[string]string
	args []string
}

// bothStreams keeps what is written to it from several goroutines.
type bothStreams struct {
	mu sync.Mutex
	bytes.Buffer
}

func (x *bothStreams) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Buffer.Write(p)
}

// outcome is how ranks end.
type outcome struct {
	text string // standard output and standard error, as they came
	out  string // standard output alone
	code int
	left bool // a process was left
}

// run runs ranks in a folder, and waits for their processes.
func (m mpirun) run(t *testing.T, dir string, list ...rank) (o outcome) {
	t.Helper()
	pids := t.TempDir()
	args := slices.Clone(m.args)
	for i, r := range list {
		if i > 0 {
			args = append(args, ":")
		}
		args = append(args, "-n", "1")
		for name, value := range r.env {
			args = append(args, m.setenv(name, value)...)
		}
		args = append(append(args, m.setenv(pidVariable, pids)...), "trainer")
		args = append(args, r.args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, m.command, args...)
	c.Dir, c.WaitDelay = dir, time.Minute
	c.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "BERTH_QUEUE="+filepath.Join(dir, "queue"))
	var out bytes.Buffer
	var all bothStreams
	c.Stdout, c.Stderr = io.MultiWriter(&out, &all), &all
	err := c.Run()
	b := all.Bytes()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v, %v\n%s", ctx.Err(), err, b)
	}
	o.text, o.out, o.code = string(b), out.String(), c.ProcessState.ExitCode()
	entries, err := os.ReadDir(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		ended := false // a zombie has ended, too
		for range 500 {
			if _, _, ended, err = spentSoFar(pid); ended || err != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err == nil && !ended {
			o.left = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return o
}

// told are the lines of the program's own errors.
func (o outcome) told() (lines []string) {
	for line := range strings.Lines(o.text) {
		if _, said, ok := strings.Cut(line, "trainer: "); ok {
			lines = append(lines, strings.TrimSpace(said))
		}
	}
	return lines
}

const ranksConfig = `data: {source: digits}
model: {preset: mlp, hidden: [32]}
train: {batch: 32, microbatches: 8, reduction: tree, epochs: 1}
devices: {threads: 1, memory: 64MiB}
`

// writeFiles writes files into a new folder.
func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRanksFail: wherever a rank is killed, stopped or panics, all end, nobody is left, and whoever can be told
// hears which one it was.
func TestRanksFail(t *testing.T) {
	eachMPI(t, func(t *testing.T, m mpirun) {
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		for i, phase := range phasesOfRanks {
			for j, how := range []string{"kill", "stop", "panic"} {
				failing := (i + j) % 2
				usual := phase.name == "a step" && how == "stop" || phase.name == "a save" && how == "panic"
				if !usual && !testall.Wanted() {
					continue
				}
				t.Run(fmt.Sprintf("rank %d, %s, %s", failing, how, phase.name), func(t *testing.T) {
					t.Parallel()
					// A rank that still joins misses the other one in MPI_Init.
					silence, want := "1m", `^rank \d: .*in MPI_Init, rank \d of 2 waits for the others: they have not come within 30s: .*$|`
					who := regexp.QuoteMeta(fmt.Sprintf("rank %d (%s)", failing, host))
					if how == "stop" {
						silence = "3s"
						want += "^(rank 1.*: )?nothing has come from " + who + " for .*: it hangs, or its machine cannot be reached; start all ranks again$"
					} else {
						want += "^$|^" + who + " has ended and told the others nothing: .*; start all ranks again$"
					}
					r := rank{map[string]string{failVariable: fmt.Sprint(failing, " ", how, " ", phase.name)}, []string{"train", "c.yaml", "--quiet", "--set", "distributed.timeout=" + silence}}
					o := m.run(t, writeFiles(t, map[string]string{"c.yaml": ranksConfig}), r, r)
					last := ""
					if list := o.told(); len(list) > 0 {
						last = list[len(list)-1]
					}
					// A launcher may end the other rank by a signal before that one has an exit code of its own. It does so, too, with
					// a stopped rank that has not joined: the other one cannot end it then.
					launchers := how != "stop" || strings.Contains(last, "in MPI_Init")
					wrong := o.code != 75 && !(launchers && slices.Contains(m.codes, o.code))
					if wrong || !regexp.MustCompile(want).MatchString(last) || o.left {
						t.Errorf("exit code %d; told last %q, want %q; left: %v\n%s", o.code, last, want, o.left, o.text)
					}
					if panicked := strings.Contains(o.text, "panic: as the test asks"); panicked != (how == "panic") {
						t.Errorf("panicked: %v\n%s", panicked, o.text)
					}
				})
			}
		}
	})
}

// TestRanksDiffer: what does not fit together ends before the first step, by one message with the rank, both values and a remedy,
// and the run folder stays as it was.
func TestRanksDiffer(t *testing.T) {
	const rows = "x,y\n1,2\n2,4\n3,6\n4,8\n5,10\n6,12\n"
	config := func(data string) string {
		return "data: {source: csv, path: " + data + ", label: y, task: regression}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {batch: 4, microbatches: 2, reduction: tree, epochs: 1}\ndevices: {threads: 1, memory: 16MiB}\n"
	}
	files := map[string]string{
		"c.yaml": ranksConfig, "table.yaml": config("a.csv"), "other.yaml": config("other.csv"), "none.yaml": config("none.csv"),
		"a.csv": rows, "other.csv": rows + "7,14\n", "bad.yaml": ranksConfig + "distributed: {timeout: 0}\n",
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	train := func(config string, more ...string) rank {
		return rank{nil, append([]string{"train", config, "--run", "run"}, more...)}
	}
	with := func(r rank, name, value string) rank {
		r.env = map[string]string{name: value}
		return r
	}
	zero, one := "rank 0 ("+host+")", "rank 1 ("+host+")"
	eachMPI(t, func(t *testing.T, m mpirun) {
		foreign := "libmpich.so.12"
		if m.command == "mpirun.mpich" {
			foreign = "libmpi.so.40"
		}
		for _, x := range []struct {
			name  string
			ranks [2]rank
			says  string
			code  int
			usual bool
		}{
			{"key", [2]rank{train("c.yaml"), train("c.yaml", "--set", "seed=7")}, "seed differs: it is 1 on " + zero + ", and 7 on " + one + ": give all ranks the same config", 2, true},
			{"value", [2]rank{train("c.yaml"), train("bad.yaml")}, one + ": bad.yaml:5: distributed.timeout: got 0, expected a time of at least 1s", 2, false},
			{"data", [2]rank{train("table.yaml"), train("other.yaml")}, "the data's fingerprint differs: it is ", 2, false},
			{"missing file", [2]rank{train("table.yaml"), train("none.yaml")}, one + ": ", 2, false},
			{"ISA level", [2]rank{with(train("c.yaml"), "BERTH_CPU", "generic"), train("c.yaml")}, "the kernels of kind cpu differ: they are generic on " + zero + ", and ", 2, false},
			{"microbatches", [2]rank{train("c.yaml", "--set", "train.microbatches=1"), train("c.yaml", "--set", "train.microbatches=1")}, "start at most 1, or give a batch more microbatches", 2, false},
			{"command", [2]rank{train("c.yaml"), {nil, []string{"eval", "run"}}}, one + ": " + m.by() + " has started 2 processes", 2, false},
			{"commands", [2]rank{{nil, []string{"eval", "run"}}, {nil, []string{"eval", "run"}}}, m.by() + " has started 2 processes", 2, true},
			{"no MPI", [2]rank{with(train("c.yaml"), "BERTH_MPI", "libnone.so.1"), with(train("c.yaml"), "BERTH_MPI", "libnone.so.1")}, "none of libnone.so.1 can be loaded", 2, false},
			{"no functions", [2]rank{with(train("c.yaml"), "BERTH_MPI", "libm.so.6"), with(train("c.yaml"), "BERTH_MPI", "libm.so.6")}, "libm.so.6 has no MPI_Init_thread", 2, false},
			{"another MPI", [2]rank{with(train("c.yaml"), "BERTH_MPI", foreign), with(train("c.yaml"), "BERTH_MPI", foreign)}, "knows of 1: load the MPI of that launcher, named in BERTH_MPI", 2, false},
		} {
			if !x.usual && !testall.Wanted() {
				continue
			}
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				if x.name == "another MPI" {
					for _, other := range mpiruns {
						if _, err := exec.LookPath(other.command); err != nil {
							t.Skip(err)
						}
					}
				}
				dir := writeFiles(t, files)
				if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
					t.Fatal(err)
				}
				o := m.run(t, dir, x.ranks[:]...)
				lines := o.told()
				if o.code != x.code || o.left || len(lines) != 1 || !strings.Contains(lines[0], x.says) {
					t.Errorf("exit code %d, want %d; told %q, want once %q; left: %v\n%s", o.code, x.code, lines, x.says, o.left, o.text)
				}
				if entries, err := os.ReadDir(filepath.Join(dir, "run")); err != nil || len(entries) > 0 {
					t.Errorf("the run folder has %d files, %v", len(entries), err)
				}
			})
		}
	})
}

// by is what the program calls the launcher.
func (m mpirun) by() string {
	if m.command == "mpirun.openmpi" {
		return "mpirun of Open MPI"
	}
	return "mpirun of MPICH, or srun --mpi=pmi2"
}
