package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// daemonIn is the environment variable that makes the test binary a daemon, whose queue is in that
// folder.
const daemonIn = "JOBS_DAEMON_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(daemonIn); dir != "" {
		fmt.Println(beDaemon(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beDaemon trains until it is killed. It says when it has the queue.
func beDaemon(dir string) error {
	d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:2"}})
	if err != nil {
		return err
	}
	fmt.Println("open")
	return d.Run(context.Background())
}

// kills is how often the daemon is killed.
func kills(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("BERTH_KILLS")); err == nil && n > 0 {
		return n
	}
	return testall.Or(8, 25)
}

// TestKills kills the daemon at random instants. Every job has the weights that it has alone. A job
// that ran alone in two processes that were killed has failed, as one that ends the process each
// time; the test lets it go on.
func TestKills(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	configs := [][]byte{text(t, "seed=1", "train.epochs=30"), text(t, "seed=2", "train.epochs=12"), text(t, "seed=3", "train.epochs=5")}
	var want []string
	for _, c := range configs {
		want = append(want, alone(t, c))
	}
	submitTo(t, dir, configs)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	n := kills(t)
	for i := range n {
		runDaemon(t, dir, time.Duration(random.Int64N(int64(400*time.Millisecond))))
		if over := resumeFailed(t, dir); over {
			t.Logf("all jobs were over after %d kills", i+1)
			if i+1 < n {
				submitTo(t, dir, configs)
			}
		}
	}
	d := start(t, dir, "cpu:2")
	for i, v := range d.Views() {
		v = d.await(t, v.ID)
		if v.State != queue.Finished {
			t.Errorf("job %d is %s: %s", v.ID, v.State, v.Failure())
		} else if got := hash(t, v.Dir); got != want[i%len(configs)] {
			t.Errorf("job %d has weights %s, and alone %s", v.ID, got, want[i%len(configs)])
		}
	}
}

// submitTo queues jobs while no daemon runs.
func submitTo(t *testing.T, dir string, configs [][]byte) {
	t.Helper()
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first := len(l.Views())
	for i, c := range configs {
		if _, err := l.Submit(t.Context(), Submission{Key: fmt.Sprint(first + i), Config: c, Parent: filepath.Join(dir, "runs"), Retries: 2}); err != nil {
			t.Fatal(err)
		}
	}
}

// runDaemon runs a daemon and kills it some time after it has opened the queue.
func runDaemon(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), daemonIn+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "open\n" {
		t.Fatalf("daemon: %q, %v", line, err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.Exited() {
		t.Fatalf("the daemon ended by itself: %v", err)
	}
}

// resumeFailed lets jobs go on that failed since they ran alone when the process was killed, and says
// whether all jobs are over.
func resumeFailed(t *testing.T, dir string) (over bool) {
	t.Helper()
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	over = true
	for _, v := range l.Views() {
		if v.State == queue.Failed {
			if _, err := l.Want(v.ID, queue.Run); err != nil {
				t.Fatal(err)
			}
		}
		over = over && v.State == queue.Finished
	}
	return over
}
