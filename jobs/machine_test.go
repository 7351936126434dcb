package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// TestModel makes requests of a daemon in a process of its own, which is killed, ended and started again, fills
// its disk and loses devices, and compares it with a model after each. In the end, all jobs that nobody
// cancelled have the weights that they have alone.
func TestModel(t *testing.T) {
	testall.Long(t)
	shared := newModel(t)
	disk, mounted := smallDisk(t)
	rapid.Check(t, func(t *rapid.T) {
		m := shared.begin(t, disk, mounted)
		defer m.end()
		disturbances := map[string]func(*rapid.T){"kill": m.kill, "down": m.down, "lose": m.lose}
		if mounted {
			disturbances["fill"], disturbances["free"] = m.fill, m.free
		}
		disturb := func(t *rapid.T) {
			disturbances[rapid.SampledFrom(slices.Sorted(maps.Keys(disturbances))).Draw(t, "how")](t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask to submit": m.submit, "ask to submit more": m.submit, "ask for a wish": m.wish, "ask for a priority": m.set, "ask to remove": m.remove,
			"wait": m.wait, "disturb": disturb, "": m.check,
		})
		m.settle(t)
	})
	shared.seen.log(t)
}

// model is what a daemon should hold.
type model struct {
	dir     string // of the queue
	runs    string // of the run folders, on another disk
	configs [][]byte
	want    []string // the weights of each config alone
	rounds  int

	p *process
	c *socket.Client

	jobs   map[int]*expected
	keys   map[string]int
	newest int  // the highest number so far
	full   bool // the disk of the queue
	broken bool // devices may be lost

	seen *seen
}

// seen counts what happened, over all cases.
type seen struct{ submitted, finished, refused, late, lost, blamed, suspended int }

func (s *seen) log(t *testing.T) { t.Logf("%+v", *s) }

// expected is a job of the model.
type expected struct {
	key      string
	config   int
	dir      string
	wish     queue.Wish
	priority int
	state    queue.State // as seen last
	fresh    bool        // it was to rest before the daemon was started, so it is not open
	compared bool        // its weights
}

func newModel(t *testing.T) *model {
	m := &model{runs: t.TempDir(), seen: &seen{}}
	for i, epochs := range []int{25, 6, 1} {
		c := jobs.Text(t, fmt.Sprint("seed=", i+1), fmt.Sprint("train.epochs=", epochs))
		m.configs, m.want = append(m.configs, c), append(m.want, jobs.Alone(t, c))
	}
	return m
}

// begin is a new queue.
func (m *model) begin(t *rapid.T, disk string, mounted bool) *model {
	m.rounds++
	n := *m
	n.dir, n.runs = filepath.Join(m.runs, fmt.Sprint("queue", m.rounds)), filepath.Join(m.runs, fmt.Sprint(m.rounds))
	if mounted {
		n.dir = filepath.Join(disk, fmt.Sprint(m.rounds))
	}
	n.jobs, n.keys = map[int]*expected{}, map[string]int{}
	n.start(t)
	return &n
}

// start starts a daemon. On a full disk it may refuse to start, and says so.
func (m *model) start(t *rapid.T, env ...string) {
	p, said := tryProcess(t, m.dir, env...)
	if p == nil && m.full && strings.Contains(said, "no space") {
		m.seen.refused++
		m.free(t)
		p, said = tryProcess(t, m.dir, env...)
	}
	if p == nil {
		t.Fatalf("the daemon does not start: %s", said)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.p, m.c, m.broken = p, c, len(env) > 0
	for _, j := range m.jobs {
		j.fresh = j.wish != queue.Run
	}
}

// end leaves nothing of a case that failed.
func (m *model) end() {
	if m.full {
		_ = free(m.dir)
	}
	if m.p != nil {
		m.c.Close()
		_ = m.p.cmd.Process.Kill()
		_ = m.p.cmd.Wait()
	}
}

func (m *model) kill(t *rapid.T) { m.restart(t) }

func (m *model) restart(t *rapid.T, env ...string) {
	if m.full { // what has happened may be in no file yet, so it may have to happen again
		for _, j := range m.jobs {
			j.state = ""
		}
	}
	m.c.Close()
	m.p.kill(t)
	m.start(t, env...)
}

func (m *model) down(t *rapid.T) {
	said := m.p.down(t, m.c)
	m.c.Close()
	if m.full {
		for _, j := range m.jobs {
			j.state = ""
		}
	} else if said != "" {
		t.Fatalf("the daemon ended badly: %s", said)
	}
	m.start(t)
}

// lose starts a daemon that loses a device after some launches, or both.
func (m *model) lose(t *rapid.T) {
	var faults []string
	for i := range rapid.IntRange(1, 2).Draw(t, "devices") {
		faults = append(faults, fmt.Sprintf("cpu:%d launch %d lost", i, rapid.IntRange(1, 400).Draw(t, "launch")))
	}
	m.seen.lost++
	m.restart(t, faultsIn+"="+strings.Join(faults, ","))
}

func (m *model) fill(t *rapid.T) {
	if err := fill(m.dir); err != nil {
		t.Fatal(err)
	}
	m.full = true
}

func (m *model) free(t *rapid.T) {
	if !m.full {
		t.Skip("there is room")
	}
	if err := free(m.dir); err != nil {
		t.Fatal(err)
	}
	m.full = false
}

// may says whether a request may fail for the disk or for lost devices.
func (m *model) may(err error) bool {
	text := err.Error()
	ok := m.full && strings.Contains(text, "no space") ||
		m.broken && (strings.Contains(text, "lost") || strings.Contains(text, "this daemon has 0"))
	if ok {
		m.seen.refused++
	}
	return ok
}

func (m *model) submit(t *rapid.T) {
	keys := append(slices.Sorted(maps.Keys(m.keys)), "", fmt.Sprint("new ", m.newest))
	key := rapid.SampledFrom(keys).Draw(t, "key")
	if rapid.IntRange(0, 3).Draw(t, "new") > 0 {
		key = fmt.Sprint("new ", m.newest)
	}
	config := rapid.IntRange(0, len(m.configs)-1).Draw(t, "config")
	priority := rapid.IntRange(0, 1).Draw(t, "priority")
	j, err := m.c.Submit(context.Background(), jobs.Submission{
		Key: key, Config: m.configs[config], Parent: m.runs, Priority: priority, Retries: 2,
	})
	before := m.jobs[m.keys[key]]
	switch {
	case key == "":
		if err == nil || !strings.Contains(err.Error(), "no key") {
			t.Fatalf("a submission without a key: job %d, %v", j.ID, err)
		}
	case err != nil && m.may(err):
	case before != nil && before.config != config:
		if !errors.Is(err, queue.ErrKey) {
			t.Fatalf("another config with the key of job %d: job %d, %v", m.keys[key], j.ID, err)
		}
	case err != nil:
		t.Fatal(err)
	case before != nil:
		if j.ID != m.keys[key] || j.Dir != before.dir {
			t.Fatalf("key %q gives job %d and then %d", key, m.keys[key], j.ID)
		}
	case j.ID <= m.newest || j.State != queue.Waiting || j.Wish != queue.Run || j.Priority != priority:
		t.Fatalf("after %d jobs a new one is %+v", m.newest, j)
	default:
		for id, other := range m.jobs {
			if other.dir == j.Dir {
				t.Fatalf("jobs %d and %d have one run folder", id, j.ID)
			}
		}
		m.newest, m.keys[key] = j.ID, j.ID
		m.jobs[j.ID] = &expected{key: key, config: config, dir: j.Dir, wish: queue.Run, priority: priority, state: queue.Waiting}
		m.seen.submitted++
	}
}

// change asks for a change of some job. do asks the daemon, and allowed says in which states it may not be refused.
func (m *model) change(t *rapid.T, do func(id int) (queue.Job, error), allowed func(queue.State) bool) (id int, j queue.Job, ok bool) {
	id = rapid.SampledFrom(append(slices.Sorted(maps.Keys(m.jobs)), 0, m.newest+1)).Draw(t, "id")
	before, missing := m.c.View(context.Background(), id)
	j, err := do(id)
	if m.jobs[id] == nil {
		if !errors.Is(missing, queue.ErrNoJob) || !errors.Is(err, queue.ErrNoJob) {
			t.Fatalf("a job %d that is not there: %v, %v", id, missing, err)
		}
		return id, j, false
	}
	if err != nil && m.may(err) {
		return id, j, false
	}
	after, gone := m.c.View(context.Background(), id)
	if missing != nil || gone != nil && !errors.Is(gone, queue.ErrNoJob) {
		t.Fatal(missing, gone)
	}
	refused := errors.Is(err, queue.ErrState)
	if err != nil && !refused {
		t.Fatal(err)
	}
	// A job may have come to its end between the looks.
	if refused && allowed(before.State) && (gone != nil || allowed(after.State)) || !refused && !allowed(before.State) {
		t.Fatalf("job %d was %s and is %s: %v", id, before.State, after.State, err)
	}
	return id, j, !refused
}

func (m *model) wish(t *rapid.T) {
	wish := rapid.SampledFrom([]queue.Wish{queue.Run, queue.Pause, queue.Cancel, queue.Run, queue.Pause}).Draw(t, "wish")
	id, j, ok := m.change(t, func(id int) (queue.Job, error) { return m.c.Want(context.Background(), id, wish) },
		func(s queue.State) bool {
			return s != queue.Finished && s != queue.Cancelled && !(s == queue.Failed && wish == queue.Pause)
		})
	if ok {
		e := m.jobs[id]
		if j.Wish != wish || !follows(wish, j.State, false) {
			t.Fatalf("%s is wanted of job %d, and it is %s with the wish %s", wish, id, j.State, j.Wish)
		}
		e.wish, e.state, e.fresh = wish, j.State, false
	}
}

func (m *model) set(t *rapid.T) {
	priority := rapid.IntRange(-1, 2).Draw(t, "priority")
	id, _, ok := m.change(t, func(id int) (queue.Job, error) { return m.c.SetPriority(context.Background(), id, priority) },
		func(s queue.State) bool { return !s.Over() })
	if ok {
		m.jobs[id].priority = priority
	}
}

// remove forgets a job. One that is suspended waits and is open, so its state alone does not say whether it may be
// removed.
func (m *model) remove(t *rapid.T) {
	id := rapid.SampledFrom(append(slices.Sorted(maps.Keys(m.jobs)), 0, m.newest+1)).Draw(t, "id")
	before, missing := m.c.View(context.Background(), id)
	err := m.c.Remove(context.Background(), id)
	switch {
	case m.jobs[id] == nil:
		if !errors.Is(missing, queue.ErrNoJob) || !errors.Is(err, queue.ErrNoJob) {
			t.Fatalf("a job %d that is not there: %v, %v", id, missing, err)
		}
	case missing != nil:
		t.Fatal(missing)
	case err == nil:
		delete(m.keys, m.jobs[id].key)
		delete(m.jobs, id)
	case m.may(err):
	case !errors.Is(err, queue.ErrState) || before.State.Over() || before.State == queue.Paused:
		t.Fatalf("job %d was %s and is not removed: %v", id, before.State, err)
	}
}

// wait lets the jobs go on for a while.
func (m *model) wait(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 60).Draw(t, "ms")) * time.Millisecond)
}

// follows says whether a job of which something is wanted may be in a state. Before it is seen and carried out, an
// open job goes on; after a start of the daemon, nothing is open.
func follows(w queue.Wish, s queue.State, fresh bool) bool {
	switch s {
	case queue.Finished:
		return true
	case queue.Failed:
		return true
	case queue.Running, queue.Waiting:
		return w == queue.Run || !fresh
	case queue.Paused:
		return w == queue.Pause
	case queue.Cancelled:
		return w == queue.Cancel
	}
	return false
}

// check compares the daemon's jobs with the model's.
func (m *model) check(t *rapid.T) {
	list, late, err := m.c.Views(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if late != "" {
		m.seen.late++
		if !strings.Contains(late, "no space") {
			t.Fatalf("the queue is late: %s", late)
		}
	}
	if len(list) != len(m.jobs) {
		t.Fatalf("%d jobs, want %d", len(list), len(m.jobs))
	}
	if err := jobs.Untrue(list); err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for i := range list {
		v := &list[i]
		e := m.jobs[v.ID]
		if e == nil {
			t.Fatalf("nobody submitted job %d", v.ID)
		}
		m.compare(t, v, e)
		if v.State != queue.Running || !strings.HasPrefix(v.Where, "cpu:") { // it saves, or is about to stand aside
			continue
		}
		for _, device := range strings.Split(v.Where, ", ") {
			if on[device] != 0 {
				t.Fatalf("jobs %d and %d run on %s", on[device], v.ID, device)
			}
			on[device] = v.ID
		}
	}
}

func (m *model) compare(t *rapid.T, v *jobs.View, e *expected) {
	if v.Dir != e.dir || v.Wish != e.wish || v.Priority != e.priority {
		t.Fatalf("job %d is %+v, want %+v", v.ID, v, e)
	}
	resting := e.state.Over() || e.state == queue.Paused
	if resting && v.State != e.state || !follows(e.wish, v.State, e.fresh) {
		t.Fatalf("job %d was %s, %s is wanted, and it is %s", v.ID, e.state, e.wish, v.State)
	}
	if v.Where == "" && (v.State == queue.Waiting || v.State == queue.Running || v.State == queue.Failed) {
		t.Fatalf("job %d is %s, and nobody says where or why", v.ID, v.State)
	}
	if v.State == queue.Waiting && e.state == queue.Running {
		m.seen.suspended++
	}
	e.state = v.State
	if !v.State.Over() || e.compared {
		return
	}
	whole, err := m.c.View(context.Background(), v.ID)
	if err == nil {
		err = attempted(&whole.Job)
	}
	if err != nil {
		t.Fatal(err)
	}
	if blamed(&whole.Job) {
		m.seen.blamed++ // each time that it is looked at
	}
	if v.State == queue.Finished {
		m.seen.finished++
		e.compared = true
		if got := jobs.Hash(t, v.Dir); got != m.want[e.config] {
			t.Fatalf("job %d has weights %s, and alone %s", v.ID, got, m.want[e.config])
		}
	}
}

// settle gives the daemon room and devices, and lets all jobs go on that nobody cancelled.
func (m *model) settle(t *rapid.T) {
	if m.full {
		m.free(t)
	}
	m.down(t)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		m.check(t)
		left := 0
		for id, e := range m.jobs {
			if e.state == queue.Finished || e.state == queue.Cancelled || e.wish == queue.Cancel && e.state != queue.Failed {
				continue
			}
			left++
			if e.state != queue.Paused && e.state != queue.Failed {
				continue
			}
			j, err := m.c.Want(context.Background(), id, queue.Run)
			if err != nil {
				t.Fatal(err)
			}
			e.wish, e.state, e.fresh = queue.Run, j.State, false
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			list, _, _ := m.c.Views(context.Background())
			t.Fatalf("they do not end: %+v", list)
		}
	}
	said := m.p.down(t, m.c)
	m.c.Close()
	if m.p = nil; said != "" {
		t.Fatal(said)
	}
}
