package queue

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/order"
)

// KilledIn is the environment variable that has the folder of the process that is killed.
const KilledIn = "QUEUE_KILLED_IN"

// Commit is commit, and BeKilled the process that TestKillsAtCommits kills. The test sets it outside
// the package, as it takes a daemon.
var (
	Commit   = &commit
	BeKilled func(dir string)
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(KilledIn); dir != "" {
		BeKilled(dir)
		return
	}
	if path := os.Getenv("QUEUE_TO_HOLD"); path != "" {
		hold(path)
		return
	}
	testall.Checks(100, 1000)
	os.Exit(m.Run())
}

func opened(t testing.TB, path string) *Queue {
	t.Helper()
	q, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

func submission(key string) Submission {
	return Submission{
		Key: key, Name: "digits", Config: []byte("model: " + key), Dir: "/runs/" + key, Retries: 1,
		Needs: []order.Need{{Kind: "cpu", Count: 1}}, Length: time.Minute, Memory: 1 << 20,
	}
}

func submitted(t testing.TB, q *Queue, key string) int {
	t.Helper()
	j, err := q.Submit(submission(key))
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

func begun(t testing.TB, q *Queue, id int, alone bool) {
	t.Helper()
	if _, err := q.Begin(id, []string{"cpu:0"}, alone); err != nil {
		t.Fatal(err)
	}
}

func state(t testing.TB, q *Queue, id int) Job {
	t.Helper()
	j, err := q.Job(id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// killed is the queue of a process that ended without closing it: the file as it is on the
// disk.
func killed(t testing.TB, path string) *Queue {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "queue.db")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return opened(t, copied)
}

func TestSubmitTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "queue.db")
	q := opened(t, path)
	first := submitted(t, q, "a")
	for _, q := range []*Queue{q, killed(t, path)} {
		if again := submitted(t, q, "a"); again != first {
			t.Errorf("the same key gives job %d and then %d", first, again)
		}
		other := submission("a")
		other.Config = []byte("model: b")
		if _, err := q.Submit(other); !errors.Is(err, ErrKey) {
			t.Errorf("another config with the same key: %v", err)
		}
		if second := submitted(t, q, "b"); second != first+1 {
			t.Errorf("the second job is %d", second)
		}
		if text, err := q.Config(first); err != nil || string(text) != "model: a" {
			t.Errorf("config %q, %v", text, err)
		}
	}
}

// TestWishes goes through every wish in every state.
func TestWishes(t *testing.T) {
	fail := Result{Err: errors.New("loss is not finite"), Code: 1}
	reach := map[State]func(q *Queue, id int){
		Waiting:   func(*Queue, int) {},
		Running:   func(q *Queue, id int) { begun(t, q, id, false) },
		Paused:    func(q *Queue, id int) { _, _ = q.Want(id, Pause) },
		Cancelled: func(q *Queue, id int) { _, _ = q.Want(id, Cancel) },
		Finished:  func(q *Queue, id int) { begun(t, q, id, false); q.End(id, Result{Complete: true}) },
		Failed:    func(q *Queue, id int) { begun(t, q, id, false); q.End(id, fail) },
	}
	want := map[State]map[Wish]State{ // those that are missing are refused
		Waiting: {Run: Waiting, Pause: Paused, Cancel: Cancelled},
		Running: {Run: Running, Pause: Running, Cancel: Running},
		Paused:  {Run: Waiting, Pause: Paused, Cancel: Cancelled},
		Failed:  {Run: Waiting, Cancel: Cancelled},
	}
	for from, reached := range reach {
		for _, wish := range []Wish{Run, Pause, Cancel} {
			q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
			id := submitted(t, q, "a")
			reached(q, id)
			if got := state(t, q, id).State; got != from {
				t.Fatalf("%s was to be reached, and it is %s", from, got)
			}
			j, err := q.Want(id, wish)
			next, allowed := want[from][wish]
			switch {
			case !allowed && !errors.Is(err, ErrState):
				t.Errorf("%s, %s is wanted: %v", from, wish, err)
			case allowed && (err != nil || j[0].State != next || j[0].Wish != wish):
				t.Errorf("%s, %s is wanted: %s, %s, %v", from, wish, j[0].State, j[0].Wish, err)
			}
			q.Close()
		}
	}
}

// TestWishOfAnOpenJob: its state follows when the attempt ends.
func TestWishOfAnOpenJob(t *testing.T) {
	for wish, want := range map[Wish]State{Run: Waiting, Pause: Paused, Cancel: Cancelled} {
		q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
		id := submitted(t, q, "a")
		begun(t, q, id, false)
		if _, err := q.Want(id, wish); err != nil {
			t.Fatal(err)
		}
		q.End(id, Result{Length: time.Minute, Left: 3 * time.Second})
		if j := state(t, q, id); j.State != want || j.Open() || j.Left != 3*time.Second {
			t.Errorf("%s is wanted: %s, open %v, %v left", wish, j.State, j.Open(), j.Left)
		}
		q.Close()
	}
}

func TestRetries(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
	lost := Result{Err: errors.New("the device is lost"), Code: 1, Again: true}
	id := submitted(t, q, "a")
	for i, want := range []State{Waiting, Failed} {
		begun(t, q, id, false)
		q.End(id, lost)
		if j := state(t, q, id); j.State != want || j.Failure() != "the device is lost" {
			t.Errorf("after failure %d it is %s: %s", i+1, j.State, j.Failure())
		}
	}
}

// TestSuspect: jobs that ran when the process was killed run alone, and one of them that was
// running alone when it was killed again has failed.
func TestSuspect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	a, b, waits, suspended := submitted(t, q, "a"), submitted(t, q, "b"), submitted(t, q, "c"), submitted(t, q, "d")
	for _, id := range []int{a, b, suspended} {
		begun(t, q, id, false)
	}
	q.Stood(suspended, true, time.Minute, time.Second)
	q = killed(t, path)
	for id, want := range map[int]bool{a: true, b: true, waits: false, suspended: false} {
		if j := state(t, q, id); j.State != Waiting || j.Suspect != want || j.Open() {
			t.Errorf("job %d: %s, suspect %v", id, j.State, j.Suspect)
		}
	}
	begun(t, q, a, true)
	q.Saved(a)
	q.End(a, Result{Complete: true})
	begun(t, q, b, true)
	q = killed(t, q.file.path)
	if j := state(t, q, a); j.State != Finished || j.Suspect {
		t.Errorf("job a: %s, suspect %v", j.State, j.Suspect)
	}
	if j := state(t, q, b); j.State != Failed || !strings.Contains(j.Failure(), "second time") {
		t.Errorf("job b: %s: %s", j.State, j.Failure())
	}
}

// TestNotBlamed: a job that was to stop may have stopped, which a full disk did not take. The kill of its process blames
// it for nothing.
func TestNotBlamed(t *testing.T) {
	for wish, want := range map[Wish]State{Pause: Paused, Cancel: Cancelled} {
		path := filepath.Join(t.TempDir(), "queue.db")
		q := opened(t, path)
		id, alone := submitted(t, q, "a"), submitted(t, q, "b")
		begun(t, q, id, false)
		begun(t, q, alone, true)
		for _, id := range []int{id, alone} {
			if _, err := q.Want(id, wish); err != nil {
				t.Fatal(err)
			}
		}
		q = killed(t, path) // before it was noted that they had ended
		for _, id := range []int{id, alone} {
			if j := state(t, q, id); j.State != want || j.Suspect || j.Failure() != "" || j.Open() {
				t.Errorf("job %d is %s, suspect %v, %s", id, j.State, j.Suspect, j.Failure())
			}
		}
	}
}

// TestSavedAlone: one that has saved since then is no more suspect than others.
func TestSavedAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	id := submitted(t, q, "a")
	begun(t, q, id, true)
	q.Saved(id)
	if j := state(t, killed(t, path), id); j.State != Failed {
		t.Errorf("it was not suspect, so nothing was to be noted: %s", j.State)
	}
	path = filepath.Join(t.TempDir(), "queue.db")
	q = opened(t, path)
	id = submitted(t, q, "a")
	begun(t, q, id, false)
	q = killed(t, path)
	begun(t, q, id, true)
	q.Saved(id)
	if j := state(t, killed(t, q.file.path), id); j.State != Waiting || !j.Suspect {
		t.Errorf("it had saved: %s, suspect %v", j.State, j.Suspect)
	}
}

// TestMachine: a machine that was started anew blames no job.
func TestMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	id := submitted(t, q, "a")
	begun(t, q, id, true)
	before := machine
	machine = func() string { return "the next start" }
	defer func() { machine = before }()
	if j := state(t, killed(t, path), id); j.State != Waiting || j.Suspect {
		t.Errorf("%s, suspect %v", j.State, j.Suspect)
	}
}

func TestAge(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(0, 0).Add(time.Duration(minutes) * time.Minute) }
	j := &Job{State: Waiting, Submitted: at(0)}
	j.enter(Paused, at(10))
	if got := j.Age(at(15)); got != 10*time.Minute {
		t.Errorf("paused after 10 minutes, 5 minutes ago: %v", got)
	}
	j.enter(Waiting, at(30))
	j.enter(Running, at(31))
	if got := j.Age(at(35)); got != 15*time.Minute {
		t.Errorf("paused for 20 of 35 minutes: %v", got)
	}
}

// TestQueue makes requests and reports at random, and opens the file of a killed process
// after each: it has what was answered.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(dir, strconv.Itoa(n), "queue.db")
		q := opened(t, path)
		defer q.Close()
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			act(r, q)
		}
		before := q.Jobs()
		copied := killed(t, path)
		defer copied.Close()
		after := copied.Jobs()
		if len(before) != len(after) {
			r.Fatalf("%d jobs, and after the kill %d", len(before), len(after))
		}
		for i, j := range before {
			want, was := j.clone(), j.Open()
			if was {
				want.interrupted(time.Now())
			}
			got := after[i]
			if got.State != want.State || got.Suspect != want.Suspect || got.Wish != j.Wish || got.Priority != j.Priority || got.Open() {
				r.Fatalf("job %d was %+v, and after the kill it is %+v", j.ID, j, got)
			}
			if !was && !reflect.DeepEqual(texts(j), texts(got)) {
				r.Fatalf("events of job %d: %v, and after the kill %v", j.ID, texts(j), texts(got))
			}
		}
	})
}

func texts(j Job) (list []string) {
	for _, e := range j.Events {
		list = append(list, e.What)
	}
	return list
}

// act does one thing that a daemon or its clients do.
func act(r *rapid.T, q *Queue) {
	id := rapid.IntRange(0, 4).Draw(r, "id")
	var err error
	switch rapid.IntRange(0, 7).Draw(r, "act") {
	case 0, 1:
		_, err = q.Submit(submission(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "key")))
	case 2:
		_, err = q.Want(id, rapid.SampledFrom([]Wish{Run, Pause, Cancel}).Draw(r, "wish"))
	case 3:
		_, err = q.SetPriority(id, rapid.IntRange(-1, 1).Draw(r, "priority"))
	case 4:
		_, err = q.Begin(id, []string{"cpu:0"}, rapid.Bool().Draw(r, "alone"))
	case 5:
		q.Stood(id, rapid.Bool().Draw(r, "suspended"), time.Minute, time.Second)
	case 6:
		err = q.Remove(id)
	case 7:
		failure := rapid.SampledFrom([]error{nil, errors.New("no")}).Draw(r, "failure")
		q.End(id, Result{Complete: failure == nil && rapid.Bool().Draw(r, "complete"), Err: failure, Again: rapid.Bool().Draw(r, "again")})
	}
	if err != nil && !errors.Is(err, ErrNoJob) && !errors.Is(err, ErrState) {
		r.Fatal(err)
	}
}

// hold is a process that has the queue until its input ends.
func hold(path string) {
	if _, err := Open(path); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("open")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "QUEUE_TO_HOLD="+path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	if want := fmt.Sprintf("by process %d", cmd.Process.Pid); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
		t.Errorf("a second process: %v; want %s", err, want)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	opened(t, path)
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a queue\n", 4000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	f, err := openFile(newer)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(formatKey, number(format+1))
	}); err != nil {
		t.Fatal(err)
	}
	f.close()
	for path, want := range map[string]error{text: ErrDamaged, newer: ErrFormat} {
		before, _ := os.ReadFile(path)
		q, err := Open(path)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, q, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s was changed", path)
		}
	}
}

// TestDamage flips single bits: the queue opens with the jobs that it had, or says what is damaged.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	for i := range 20 {
		submitted(t, q, strconv.Itoa(i))
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q = opened(t, path)
	want := q.Jobs()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := 0; at < len(whole); at += testall.Or(499, 53) {
		text := append([]byte(nil), whole...)
		text[at] ^= 1 << (at % 8)
		flipped := filepath.Join(t.TempDir(), "queue.db")
		if err := os.WriteFile(flipped, text, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := Open(flipped)
		if err != nil {
			refused++
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
				t.Errorf("byte %d: %v", at, err)
			}
			continue
		}
		if got := q.Jobs(); !reflect.DeepEqual(got, want) {
			t.Errorf("byte %d: the jobs are not those that were written", at)
		}
		q.Close()
	}
	if refused == 0 {
		t.Error("no damage was found")
	}
}

// TestJobsAreKept: a list of jobs stays as it was when jobs change, and no other one is made while none does.
func TestJobsAreKept(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
	submit := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if _, err := q.Submit(Submission{Key: key, Dir: key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	states := func(list []Job) (text []string) {
		for _, j := range list {
			text = append(text, fmt.Sprint(j.ID, " ", j.State))
		}
		return text
	}
	submit("a", "b", "c", "d")
	before := q.Jobs()
	if n := testing.AllocsPerRun(10, func() { q.Jobs() }); n != 0 {
		t.Errorf("%g allocations without a change", n)
	}
	if _, err := q.Want(3, Pause); err != nil {
		t.Fatal(err)
	}
	if err := q.Remove(1); err != nil {
		t.Fatal(err)
	}
	submit("e", "f")
	if err := q.Remove(6); err != nil {
		t.Fatal(err)
	}
	if got, want := states(before), []string{"1 waiting", "2 waiting", "3 waiting", "4 waiting"}; !slices.Equal(got, want) {
		t.Errorf("the list has become %q", got)
	}
	if got, want := states(q.Jobs()), []string{"2 waiting", "3 paused", "4 waiting", "5 waiting"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// BenchmarkJobs is what a list of 10,000 jobs takes of the queue after one of them has changed.
func BenchmarkJobs(b *testing.B) {
	q := &Queue{jobs: map[int]*Job{}, fresh: map[int]bool{}}
	for i := range 10_000 {
		j := &Job{ID: i + 1, Events: make([]Event, 8), Attempts: make([]Attempt, 2), Needs: make([]order.Need, 1)}
		q.set(j)
	}
	for b.Loop() {
		q.set(q.jobs[5000])
		q.Jobs()
	}
}

// TestFolderOfAFailedJob: a failed job does not go on in a folder that is another job's by now.
func TestFolderOfAFailedJob(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
	dir := t.TempDir()
	var ids []int
	for _, key := range []string{"a", "b"} {
		j, err := q.Submit(Submission{Key: key, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, j.ID); key == "a" {
			if _, err := q.Begin(j.ID, nil, false); err != nil {
				t.Fatal(err)
			}
			q.End(j.ID, Result{Err: errors.New("no"), Code: 1})
		}
	}
	if _, err := q.Want(ids[0], Run); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "that of job 2 by now") {
		t.Error(err)
	}
	if _, err := q.Want(ids[1], Cancel); err != nil {
		t.Fatal(err)
	}
	if j, err := q.Want(ids[0], Run); err != nil || j[0].State != Waiting {
		t.Error(j[0].State, err)
	}
}

// A queue that is closed says so: whoever asked may ask the next program that has it.
func TestClosed(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "q.db"))
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(Submission{Key: "a", Name: "a"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
