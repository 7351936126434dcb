package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/ranks"
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
	"messages": messages,
	"sums":     sum,
	"die": func(_ context.Context, w *World) error {
		if w.Rank() == 1 {
			w.Abort(42)
		}
		return w.Recv(1, ranks.TagBench, make([]byte, 8)).Wait(context.Background())
	},
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
			if err = parts[name](ctx, w); err == nil {
				err = w.Close()
			}
			fmt.Println("rank", w.Rank(), "of", w.Size(), w.Library())
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		return 3
	}
	return 0
}

// messages sends messages of many lengths in both directions at once, more than MPI has at once.
func messages(ctx context.Context, w *World) error {
	peer := w.Rank() ^ 1
	r := rand.New(rand.NewPCG(1, 2))
	var sent, want, got [][]byte
	for i := range 2 * len(requests{}) {
		n := r.IntN(3000)
		if i%100 == 0 {
			n = 1 << 20
		}
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(i + j + w.Rank())
		}
		sent, got = append(sent, b), append(got, make([]byte, n))
		other := bytes.Clone(b)
		for j := range other {
			other[j] = byte(i + j + peer)
		}
		want = append(want, other)
	}
	var waits []interface{ Wait(context.Context) error }
	for i := range sent {
		waits = append(waits, w.Send(peer, ranks.TagBench, sent[i]), w.Recv(peer, ranks.TagBench, got[i]))
	}
	for _, e := range waits {
		if err := e.Wait(ctx); err != nil {
			return err
		}
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("message %d of %d bytes differs", i, len(got[i]))
		}
	}
	return nil
}

// sum adds vectors by a tree, and by MPI.
func sum(ctx context.Context, w *World) error {
	const elems = 1<<19 + 3
	x, y := make([]float32, elems), make([]float32, elems)
	for i := range x {
		x[i] = float32(i%1000 + w.Rank())
		y[i] = x[i]
	}
	if err := ranks.NewReduction(w, elems, func(y, a, b []float32) {
		for i := range y {
			y[i] = a[i] + b[i]
		}
	}).Sum(ctx, x); err != nil {
		return err
	}
	e, ok := w.Allreduce(shape.Bytes(y))
	if !ok {
		return errors.New("no MPI_Allreduce")
	}
	if err := e.Wait(ctx); err != nil {
		return err
	}
	for i := range x {
		if want := float32(w.Size()*(i%1000) + w.Size()*(w.Size()-1)/2); x[i] != want || y[i] != want {
			return fmt.Errorf("element %d: %v by the tree and %v by MPI, want %v", i, x[i], y[i], want)
		}
	}
	return nil
}

// launcher is a way to start ranks. args come before the program.
type launcher struct {
	name, command string
	args          []string
}

var launchers = []launcher{
	{"openmpi", "mpirun.openmpi", []string{"--bind-to", "none", "--oversubscribe"}},
	{"openmpi-tcp", "mpirun.openmpi", []string{"--bind-to", "none", "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"}},
	{"mpich", "mpirun.mpich", nil},
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
	c.Env = append(c.Env, env...)
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

func TestMessages(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		out, code := l.run(t, 2, "messages")
		if code != 0 || !strings.Contains(out, "rank 1 of 2") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

func TestSums(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		for _, n := range []int{2, 3, 4} {
			if out, code := l.run(t, n, "sums"); code != 0 {
				t.Errorf("%d ranks: exit code %d:\n%s", n, code, out)
			}
		}
	})
}

// TestAbort: one rank ends all, also one that waits for it.
func TestAbort(t *testing.T) {
	each(t, func(t *testing.T, l launcher) {
		began := time.Now()
		if out, code := l.run(t, 2, "die"); code != 42 {
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
