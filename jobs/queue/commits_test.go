package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

func init() { queue.BeKilled = beKilled }

// killAt is the environment variable that says when the process is killed: 2n before its commit n, counted from
// 0, and 2n+1 after it. A negative one is never.
const killAt = "QUEUE_KILL_AT"

// beKilled is a daemon and its client, who says what he asks for and what was answered. It does the rest of
// that when it is started again.
func beKilled(dir string) {
	at, err := strconv.Atoi(os.Getenv(killAt))
	if err != nil {
		panic(err)
	}
	dieAt(int64(at))
	d, err := jobs.Open(jobs.Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	c := &talker{d: d, dir: dir}
	c.talk()
	cancel()
	if err := errors.Join(<-done, d.Close()); err != nil {
		panic(err)
	}
	fmt.Println("done")
}

// dieAt lets the process be killed at a commit.
func dieAt(at int64) {
	var n atomic.Int64
	n.Store(-1)
	pass := func() {
		if n.Add(1) != at {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Kill() != nil {
			panic(err)
		}
		select {}
	}
	real := *queue.Commit
	*queue.Commit = func(db *bbolt.DB, do func(*bbolt.Tx) error) error {
		pass()
		err := real(db, do)
		pass()
		return err
	}
}

// talker is the client.
type talker struct {
	d   *jobs.Daemon
	dir string
}

// said is a line about a request: before it, and with an answer after it.
type said struct {
	What     string
	Answered bool
	Refused  bool
	Key      string
	Job      queue.Job
	Gone     bool // it is removed
}

func say(s said) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// ask asks for something. A refusal because of the job's state is none: it may have ended in the process before.
func (c *talker) ask(what, key string, do func() (queue.Job, error)) queue.Job {
	say(said{What: what, Key: key})
	j, err := do()
	if err == nil {
		say(said{What: what, Key: key, Answered: true, Job: j, Gone: what == "rm"})
	} else if !errors.Is(err, queue.ErrState) {
		panic(err)
	} else {
		say(said{Key: key, Refused: true})
	}
	return j
}

func (c *talker) submit(key string) int {
	return c.ask("submit", key, func() (queue.Job, error) {
		return c.d.Submit(context.Background(), jobs.Submission{Key: key, Config: config(key), Parent: filepath.Join(c.dir, "runs"), Retries: 2})
	}).ID
}

func (c *talker) want(id int, key string, w queue.Wish) {
	c.ask(string(w), key, func() (queue.Job, error) { return c.d.Want(id, w) })
}

// talk asks for each thing that can be asked, and lets the jobs end.
func (c *talker) talk() {
	a := c.submit("a")
	b := c.submit("b")
	c.want(a, "a", queue.Run) // the process before may have paused it
	c.await(a, "a", queue.Running)
	c.ask("set", "b", func() (queue.Job, error) { return c.d.SetPriority(b, 2) }) // a gives way to it
	c.want(a, "a", queue.Pause)
	c.await(a, "a", queue.Paused)
	gone := c.submit("gone")
	c.want(gone, "gone", queue.Cancel)
	c.await(gone, "gone")
	c.ask("rm", "gone", func() (queue.Job, error) { return queue.Job{}, c.d.Remove(gone) })
	c.want(a, "a", queue.Run)
	c.await(a, "a")
	c.await(b, "b")
}

// await waits until the job is over, or in one of some states. One that was blamed for two kills goes on.
func (c *talker) await(id int, key string, other ...queue.State) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		v, err := c.d.View(id)
		if err != nil {
			panic(err)
		}
		if v.State == queue.Failed && strings.Contains(v.Failure(), "for the second time") {
			c.want(id, key, queue.Run)
			continue
		}
		if v.State.Over() || len(other) > 0 && v.State == other[0] {
			return
		}
	}
	panic(fmt.Sprintf("job %d does not end", id))
}

// config is the config of the job with that key.
func config(key string) []byte {
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=" + map[string]string{"a": "20", "b": "2", "gone": "9"}[key]}})
	if err != nil {
		panic(err)
	}
	text, err := c.Kept()
	if err != nil {
		panic(err)
	}
	return text
}

// weights are those of a report.
func weights(dir string) (string, error) {
	var r berth.Report
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r.WeightsSHA256, err
}

// TestKillsAtCommits kills a daemon before and after each commit of its queue, and the next one at one of
// its first ones. The file has what was answered, with one job for each key, and the last daemon
// ends the jobs with the weights that they have alone.
func TestKillsAtCommits(t *testing.T) {
	testall.Long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	want := map[string]string{}
	for _, key := range []string{"a", "b"} {
		want[key] = alone(t, config(key))
	}
	tried := 0
	for at := 0; ; at++ {
		if !testall.Wanted() {
			at += random.IntN(14)
		}
		dir := t.TempDir()
		k := &killed{t: t, dir: dir, keys: map[string]said{}, open: map[string][]string{}}
		if !k.run(at) {
			t.Logf("killed at %d of about %d places", tried, at)
			break
		}
		tried++
		k.check()
		k.run(random.IntN(12))
		k.check()
		if k.run(-1) {
			t.Fatal("it was killed")
		}
		k.ended(want)
		if t.Failed() {
			t.Fatalf("killed at %d", at)
		}
	}
	if tried == 0 {
		t.Error("nothing was killed")
	}
}

func alone(t *testing.T, text []byte) string {
	t.Helper()
	c, err := configs.Parse("alone", text, configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	r, err := run.Train(t.Context(), berth.TrainOptions{Dir: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	return r.WeightsSHA256
}

// killed is the folder of a process that was killed, and what its client knows by key: the last answer, and what
// was asked since then.
type killed struct {
	t    *testing.T
	dir  string
	keys map[string]said
	open map[string][]string
}

// run starts the process and says whether it was killed.
func (k *killed) run(at int) bool {
	k.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), queue.KilledIn+"="+k.dir, killAt+"="+strconv.Itoa(at))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		var s said
		switch {
		case line == "" || line == "done":
			continue
		case json.Unmarshal([]byte(line), &s) != nil:
			k.t.Fatalf("killed at %d: the process said %q", at, line)
		case s.Answered:
			k.keys[s.Key] = s
			delete(k.open, s.Key)
		case s.Refused:
			delete(k.open, s.Key)
		default:
			k.open[s.Key] = append(k.open[s.Key], s.What)
		}
	}
	if err == nil && lines[len(lines)-1] == "done" {
		return false
	}
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Exited() {
		k.t.Fatalf("killed at %d: the process ended by itself: %v: %s", at, err, errs.Bytes())
	}
	return true
}

// check opens a copy of the queue, and wants in it what was answered.
func (k *killed) check() {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "queue.db"))
	if errors.Is(err, os.ErrNotExist) && len(k.keys) == 0 {
		return
	} else if err != nil {
		k.t.Fatal(err)
	}
	path := filepath.Join(k.t.TempDir(), "queue.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		k.t.Fatal(err)
	}
	q, err := queue.Open(path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer q.Close()
	list := q.Jobs()
	most := 0
	for key, s := range k.keys {
		if !s.Gone {
			most++
		}
		k.has(q, key, s)
	}
	for key, what := range k.open {
		if s, ok := k.keys[key]; slices.Contains(what, "submit") && (!ok || s.Gone) {
			most++
		}
	}
	if len(list) > most {
		k.t.Errorf("%d jobs, and %d were submitted: %+v", len(list), most, list)
	}
}

// has compares a job with the last answer about it, and with what was asked for since.
func (k *killed) has(q *queue.Queue, key string, s said) {
	asked := func(what string) bool { return slices.Contains(k.open[key], what) }
	if s.Gone {
		if has := q.Has(key); has && !asked("submit") {
			k.t.Errorf("job %s was removed, and is there", key)
		}
		return
	}
	j, err := q.Job(s.Job.ID)
	switch {
	case err != nil && asked("rm"):
	case err != nil:
		k.t.Errorf("job %s was answered: %v", key, err)
	case j.Dir != s.Job.Dir:
		k.t.Errorf("job %s is in %s, and was answered to be in %s", key, j.Dir, s.Job.Dir)
	case j.Wish != s.Job.Wish && !asked(string(j.Wish)):
		k.t.Errorf("of job %s %q is wanted, and %q was answered", key, j.Wish, s.Job.Wish)
	case j.Priority != s.Job.Priority && !asked("set"):
		k.t.Errorf("job %s has priority %d, and %d was answered", key, j.Priority, s.Job.Priority)
	}
}

// ended wants the two jobs that were to end, once each.
func (k *killed) ended(want map[string]string) {
	q, err := queue.Open(filepath.Join(k.dir, "queue.db"))
	if err != nil {
		k.t.Fatal(err)
	}
	defer q.Close()
	list := q.Jobs()
	if len(list) != len(want) {
		k.t.Errorf("%d jobs: %+v", len(list), list)
	}
	for key, w := range want {
		j, err := q.Job(k.keys[key].Job.ID)
		if err != nil || j.State != queue.Finished {
			k.t.Errorf("job %s: %+v, %v", key, j, err)
			continue
		}
		if got, err := weights(j.Dir); got != w {
			k.t.Errorf("job %s has weights %s, and alone %s; %v", key, got, w, err)
		}
	}
}
