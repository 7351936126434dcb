package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// kills is how often the daemon is killed.
func kills(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("BERTH_KILLS")); err == nil && n > 0 {
		return n
	}
	return testall.Or(8, 60)
}

// TestKills kills a daemon at random instants while a client submits, pauses, resumes, orders and removes jobs.
// The next daemon has all that was answered, and no job twice; no job runs twice at once; every job ends
// with the weights that it has alone. A submission without an answer is sent again with its key. A job
// that ran alone in two processes that were killed has failed, as one that ends the process each time;
// the test lets it go on. BERTH_KILLS=500 makes it long.
func TestKills(t *testing.T) {
	testall.Long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := newKiller(t, rand.New(rand.NewPCG(seed, 1)))
	n := kills(t)
	for range n {
		k.round()
	}
	k.finish()
	t.Logf("%d kills, %d jobs, %d submissions that were not answered, %d jobs that were blamed", n, k.made, k.unanswered, k.blamed)
}

// killer is the client of TestKills, and what it knows.
type killer struct {
	t       *testing.T
	random  *rand.Rand
	dir     string
	configs [][]byte
	want    []string // the weights of each config alone

	asked    []*asked
	removing map[int]bool // removals that were not answered

	made, unanswered, blamed int
}

// asked is a submission.
type asked struct {
	jobs.Submission
	config int
	id     int    // 0: not answered
	dir    string // its run folder
	over   bool   // its weights were compared

	unsure   bool // a change was asked for, and not answered
	wish     queue.Wish
	priority int
}

func newKiller(t *testing.T, random *rand.Rand) *killer {
	k := &killer{t: t, random: random, dir: t.TempDir(), removing: map[int]bool{}}
	for i, epochs := range []int{30, 12, 5, 1} {
		c := jobs.Text(t, fmt.Sprint("seed=", i+1), fmt.Sprint("train.epochs=", epochs))
		k.configs, k.want = append(k.configs, c), append(k.want, jobs.Alone(t, c))
	}
	return k
}

// round starts a daemon, talks to it, and kills it.
func (k *killer) round() {
	p := startProcess(k.t, k.dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(time.Duration(k.random.Int64N(int64(400*time.Millisecond))), func() {
		_ = p.cmd.Process.Kill()
		cancel()
	})
	k.talk(ctx, p)
	<-ctx.Done()
	p.kill(k.t)
}

// talk asks for one thing after the other until the daemon is killed.
func (k *killer) talk(ctx context.Context, p *process) {
	c, err := p.dial(ctx)
	if err != nil {
		k.failed(ctx, err)
		return
	}
	defer c.Close()
	for err = k.sendAgain(ctx, c); err == nil; err = k.act(ctx, c) {
		if err = k.compare(ctx, c); err != nil {
			break
		}
		time.Sleep(time.Duration(k.random.Int64N(int64(20 * time.Millisecond))))
	}
	k.failed(ctx, err)
}

// failed takes the errors of connections, which a killed daemon ends.
func (k *killer) failed(ctx context.Context, err error) {
	k.t.Helper()
	var cut *net.OpError
	for _, known := range []error{socket.ErrNoDaemon, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return
		}
	}
	if ctx.Err() == nil && !errors.As(err, &cut) {
		k.t.Error(err)
	}
}

// sendAgain sends what was not answered.
func (k *killer) sendAgain(ctx context.Context, c *socket.Client) error {
	for _, a := range k.asked {
		if a.id != 0 {
			continue
		}
		if err := k.send(ctx, c, a); err != nil {
			return err
		}
	}
	return nil
}

func (k *killer) send(ctx context.Context, c *socket.Client, a *asked) error {
	j, err := c.Submit(ctx, a.Submission)
	if err != nil {
		k.unanswered++
		return err
	}
	a.id, a.dir = j.ID, j.Dir
	a.wish, a.priority = j.Wish, j.Priority
	return nil
}

// compare wants all answered jobs in the list, each once, and their weights.
func (k *killer) compare(ctx context.Context, c *socket.Client) error {
	list, late, err := c.Views(ctx)
	if err != nil {
		return err
	}
	if late != "" {
		k.t.Errorf("the queue is late: %s", late)
	}
	views := map[int]*jobs.View{}
	for i := range list {
		views[list[i].ID] = &list[i]
	}
	k.asked = slices.DeleteFunc(k.asked, func(a *asked) bool { return views[a.id] == nil && k.removing[a.id] })
	for _, a := range k.asked {
		v := views[a.id]
		delete(views, a.id)
		switch {
		case v == nil:
			k.t.Fatalf("job %d was answered, and is lost", a.id)
		case v.Dir != a.dir:
			k.t.Errorf("job %d is in %s, and was answered to be in %s", a.id, v.Dir, a.dir)
		case !a.unsure && (v.Wish != a.wish || v.Priority != a.priority):
			k.t.Errorf("of job %d %s is wanted, with priority %d; answered were %s and %d", a.id, v.Wish, v.Priority, a.wish, a.priority)
		case v.State == queue.Waiting && v.Where == "":
			k.t.Errorf("job %d waits, and nobody says why", a.id)
		}
		a.wish, a.priority, a.unsure = v.Wish, v.Priority, false
		if err := k.look(ctx, c, a, v); err != nil {
			return err
		}
	}
	for id := range views {
		k.t.Errorf("nobody submitted job %d", id)
	}
	return nil
}

// look compares the weights of a job that has finished, and lets one go on that was blamed.
func (k *killer) look(ctx context.Context, c *socket.Client, a *asked, v *jobs.View) error {
	if a.over || !v.State.Over() {
		return nil
	}
	whole, err := c.View(ctx, a.id)
	if err != nil {
		return err
	}
	if err := attempted(&whole.Job); err != nil {
		k.t.Error(err)
	}
	switch {
	case v.State == queue.Finished:
		a.over = true
		if got := jobs.Hash(k.t, a.dir); got != k.want[a.config] {
			k.t.Errorf("job %d has weights %s, and alone %s", a.id, got, k.want[a.config])
		}
	case blamed(&whole.Job):
		k.blamed++
		err = a.change(c.Want(ctx, a.id, queue.Run))
	default:
		k.t.Errorf("job %d is %s: %s", a.id, v.State, whole.Failure())
	}
	return err
}

// change takes the answer to a change.
func (a *asked) change(j queue.Job, err error) error {
	a.unsure = err != nil
	if err == nil {
		a.wish, a.priority = j.Wish, j.Priority
	}
	if errors.Is(err, queue.ErrState) { // it has ended meanwhile
		return nil
	}
	return err
}

// act asks for something at random.
func (k *killer) act(ctx context.Context, c *socket.Client) error {
	var open, over []*asked
	for _, a := range k.asked {
		if a.over {
			over = append(over, a)
		} else {
			open = append(open, a)
		}
	}
	if len(open) < 3 || k.random.IntN(40) == 0 {
		return k.submit(ctx, c)
	}
	a := open[k.random.IntN(len(open))]
	switch k.random.IntN(5) {
	case 0:
		return a.change(c.Want(ctx, a.id, queue.Pause))
	case 1, 2:
		return a.change(c.Want(ctx, a.id, queue.Run))
	case 3:
		return a.change(c.SetPriority(ctx, a.id, k.random.IntN(3)))
	}
	if len(over) == 0 {
		return nil
	}
	gone := over[k.random.IntN(len(over))]
	k.removing[gone.id] = true
	err := c.Remove(ctx, gone.id)
	if err == nil {
		k.asked = slices.DeleteFunc(k.asked, func(a *asked) bool { return a == gone })
	}
	return err
}

func (k *killer) submit(ctx context.Context, c *socket.Client) error {
	k.made++
	a := &asked{config: k.random.IntN(len(k.configs))}
	a.Submission = jobs.Submission{Key: fmt.Sprint("key ", k.made), Config: k.configs[a.config], Parent: filepath.Join(k.dir, "runs"), Retries: 2}
	k.asked = append(k.asked, a)
	return k.send(ctx, c, a)
}

// finish lets all jobs end.
func (k *killer) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := startProcess(k.t, k.dir)
	c, err := p.dial(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	defer c.Close()
	for err = k.sendAgain(ctx, c); err == nil; time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, a := range k.asked {
			if a.over {
				continue
			}
			left++
			if err := a.change(c.Want(ctx, a.id, queue.Run)); err != nil {
				k.t.Fatal(err)
			}
		}
		if err = k.compare(ctx, c); left == 0 {
			break
		}
	}
	if err != nil {
		k.t.Fatal(err)
	}
	if said := p.down(k.t, c); said != "" {
		k.t.Error(said)
	}
}
