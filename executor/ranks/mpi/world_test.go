package mpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/rankstest"
	"github.com/berth-ml/berth/internal/testall"
)

// child is the variable that says what a process under mpirun is to do.
const child = "BERTH_TEST_RANK"

func TestMain(m *testing.M) {
	if name := os.Getenv(child); name != "" {
		os.Exit(play(name))
	}
	os.Exit(m.Run())
}

// parts are what ranks do in the tests below.
var parts = map[string]func(ctx context.Context, w *World) error{
	"play": func(ctx context.Context, w *World) error {
		if err := rankstest.Play(ctx, w); err != nil {
			return err
		}
		return sum(ctx, w)
	},
	"fail":  func(ctx context.Context, w *World) error { return rankstest.Fail(ctx, w) },
	"leave": func(ctx context.Context, w *World) error { return nil },
}

// play is a rank.
func play(name string) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	launch, err := ranks.Launched(os.LookupEnv)
	if err == nil {
		var files []string
		if file := os.Getenv("BERTH_MPI"); file != "" {
			files = []string{file}
		}
		var w *World
		if w, err = Open(ctx, launch, files); err == nil {
			err = parts[name](ctx, w)
			fmt.Println("rank", w.Rank(), "of", w.Size(), w.Library())
			if err == nil {
				err = w.Close()
				select {
				case <-w.ended:
				default:
					err = cmp.Or(err, fmt.Errorf("MPI has not ended within %v", finalizeWithin))
				}
			}
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 3
	}
	return 0
}

// sum adds vectors by MPI's own function.
func sum(ctx context.Context, w *World) error {
	x := make([]float32, 1<<19+3)
	for i := range x {
		x[i] = float32(i%1000 + w.Rank())
	}
	e, ok := w.Allreduce(shape.Bytes(x))
	if !ok {
		return errors.New("no MPI_Allreduce")
	}
	if err := e.Wait(ctx); err != nil {
		return err
	}
	for i, v := range x {
		if want := float32(w.Size()*(i%1000) + w.Size()*(w.Size()-1)/2); v != want {
			return fmt.Errorf("element %d: %v by MPI, want %v", i, v, want)
		}
	}
	return nil
}

// launcher is a way to start ranks. args come before the program.
type launcher struct {
	name, command string
	args          []string
	env           []string
}

// launchers are those of both MPIs, over shared memory and over TCP.
var launchers = []launcher{
	{"openmpi", "mpirun.openmpi", openMPI(), nil},
	{"openmpi-tcp", "mpirun.openmpi", openMPI("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"), nil},
	{"mpich", "mpirun.mpich", nil, nil},
	{"mpich-tcp", "mpirun.mpich", nil, []string{"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"}},
}

func openMPI(args ...string) []string {
	return append([]string{"--bind-to", "none", "--oversubscribe"}, args...)
}

// run starts ranks, and gives what they print and their exit code.
func (l launcher) run(t *testing.T, n int, name string, env ...string) (out string, code int) {
	t.Helper()
	if _, err := exec.LookPath(l.command); err != nil {
		if os.Getenv("TEST_MPI") == "required" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed (Debian's packages openmpi-bin and mpich)", l.command)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, l.command, append(append([]string{}, l.args...), "-n", fmt.Sprint(n), os.Args[0])...)
	c.Env = append(os.Environ(), child+"="+name, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	c.Env = append(append(c.Env, l.env...), env...)
	b, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, b)
	}
	return string(b), c.ProcessState.ExitCode()
}

// each runs a test with each launcher.
func each(t *testing.T, test func(t *testing.T, l launcher)) {
	testall.Long(t)
	for _, l := range launchers {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// TestSuite plays the suite of transports, and sums by MPI.
func TestSuite(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		for _, n := range []int{2, 3, 4} {
			out, code := l.run(t, n, "play")
			if code != 0 || !strings.Contains(out, fmt.Sprintf("rank 1 of %d", n)) {
				t.Errorf("%d ranks: exit code %d:\n%s", n, code, out)
			}
		}
	})
}

// TestAbort: one rank fails, and ends all, also those that wait for it.
func TestAbort(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		began := time.Now()
		if out, code := l.run(t, 2, "fail"); code != 42 {
			t.Errorf("exit code %d, want 42:\n%s", code, out)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("all ended after %v", took)
		}
	})
}

// TestOtherLibrary: the library of another launcher knows of one rank alone, and is refused.
func TestOtherLibrary(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		file := "libmpich.so.12"
		if l.command == "mpirun.mpich" {
			file = "libmpi.so.40"
		}
		out, code := l.run(t, 2, "leave", "BERTH_MPI="+file)
		if code == 0 || !strings.Contains(out, "knows of 1: load the MPI of that launcher") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

// TestNoLibrary: what cannot be loaded is named.
func TestNoLibrary(t *testing.T) {
	_, err := Open(t.Context(), ranks.Launch{Size: 2}, []string{"libnone.so.1", "libc.so.6"})
	if !errors.Is(err, ranks.ErrLibrary) {
		t.Errorf("%v, want %v", err, ranks.ErrLibrary)
	}
}
