package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// sweepText is a sweep of twelve trials, of which two fail.
func sweepText(t testing.TB, flags map[string]string) string {
	t.Helper()
	s, err := configs.SweepOfFlags("digits", []string{"optimizer.lr=0.001,0.01,1e30,0.003,0.0001,0.03", "model.hidden=[16],[24,8]"}, flags)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// outcome is what became of each trial of a sweep, and the weights of the best.
func outcome(t *testing.T, views []jobs.View, id int) string {
	t.Helper()
	st, err := jobs.StandingOf(views, id)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, v := range st.Trials {
		if v == nil {
			t.Fatalf("trial %d has not begun", i+1)
		}
		fmt.Fprintf(&b, "trial %d %v: %s, out %v, step %d of %d:", i+1, v.Trial.Settings, v.State, v.Trial.Out, v.Trial.Step, v.Trial.Steps)
		for _, x := range v.Trial.Values {
			fmt.Fprint(&b, " ", *x)
		}
		_, err := os.Stat(rundir.CheckpointPath(v.Dir))
		fmt.Fprintf(&b, "; checkpoints %v\n", err == nil)
	}
	fmt.Fprintf(&b, "best %d, weights %s\n", st.Decision.Best, jobs.Hash(t, st.Trials[st.Decision.Best-1].Dir))
	return b.String()
}

// daemonIn is a daemon in this process, which runs to the end of the test.
func daemonIn(t *testing.T, dir, devices string) *jobs.Daemon {
	t.Helper()
	d, err := jobs.Open(jobs.Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: devices}, Told: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// sweepOn runs a sweep on a daemon in this process.
func sweepOn(t *testing.T, devices, text string) (o string, d *jobs.Daemon, id int) {
	t.Helper()
	dir := t.TempDir()
	d = daemonIn(t, dir, devices)
	j, err := d.Submit(t.Context(), jobs.Submission{Key: "sweep", Config: jobs.Text(t, "train.epochs=6"), Sweep: text, Parent: filepath.Join(dir, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		v, err := d.View(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		if v.State.Over() {
			if v.State != queue.Finished {
				t.Fatalf("the sweep is %s: %s", v.State, v.Where)
			}
			return outcome(t, d.Views(), j.ID), d, j.ID
		}
		if time.Now().After(end) {
			t.Fatalf("the sweep does not end: %+v", d.Views())
		}
	}
}

// TestSweepsOnDevices: what becomes of each trial does not depend on the number of devices and of trials at once, and
// the best one has the weights that its config has alone.
func TestSweepsOnDevices(t *testing.T) {
	for name, flags := range map[string]map[string]string{"whole": {}, "halving": {"halving": "true"}, "keep": {"halving": "true", "keep": "1"}} {
		t.Run(name, func(t *testing.T) {
			if name != "halving" {
				testall.Long(t)
			}
			want, d, id := sweepOn(t, "cpu:1", sweepText(t, flags))
			t.Log(want)
			if halved := strings.Contains(want, "out true"); halved != (flags["halving"] != "") || !strings.Contains(want, ": failed") {
				t.Error("no trial is out, or none failed")
			}
			keep := 3
			if flags["keep"] != "" {
				keep = 1
			}
			if n := strings.Count(want, "checkpoints true"); n != keep {
				t.Errorf("%d trials have checkpoints, expected %d", n, keep)
			}
			st, err := jobs.StandingOf(d.Views(), id)
			if err != nil {
				t.Fatal(err)
			}
			best := st.Trials[st.Decision.Best-1]
			config, err := d.Config(best.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got, alone := jobs.Hash(t, best.Dir), jobs.Alone(t, config); got != alone {
				t.Errorf("the best trial has weights %s, and alone %s", got, alone)
			}
			for _, more := range []struct{ devices, atOnce string }{{"cpu:2", ""}, {"cpu:4", ""}, {"cpu:1", "4"}, {"cpu:2", "1"}} {
				other := map[string]string{}
				for k, v := range flags {
					other[k] = v
				}
				if more.atOnce != "" {
					other["at-once"] = more.atOnce
				}
				if got, _, _ := sweepOn(t, more.devices, sweepText(t, other)); got != want {
					t.Errorf("on %s, at once %q:\n%s", more.devices, more.atOnce, got)
				}
			}
		})
	}
}

// TestSweepsAreSuspended: a sweep whose trials give way to each other and to other jobs, and are closed and opened again, at
// random, ends as one that is left alone.
func TestSweepsAreSuspended(t *testing.T) {
	testall.Long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	flags := map[string]string{"halving": "true"}
	began := time.Now()
	want, _, _ := sweepOn(t, "cpu:1", sweepText(t, flags))
	often := int64(time.Since(began)) / 100
	flags["at-once"] = "4"
	suspended, attempts := 0, 0
	for sweeps := 1; suspended < testall.Most(testall.Or(10, 200), 3); sweeps++ {
		dir := t.TempDir()
		d := daemonIn(t, dir, fmt.Sprint("cpu:", 1+sweeps%2))
		config := jobs.Text(t, "train.epochs=6")
		j, err := d.Submit(t.Context(), jobs.Submission{Key: "sweep", Config: config, Sweep: sweepText(t, flags), Parent: filepath.Join(dir, "runs")})
		if err != nil {
			t.Fatal(err)
		}
		over := func() bool {
			v, err := d.View(j.ID)
			if err != nil {
				t.Fatal(err)
			}
			return v.State.Over()
		}
		for n := 0; !over(); n++ {
			views := slices.DeleteFunc(d.Views(), func(v jobs.View) bool { return v.Sweep != nil || v.State.Over() })
			trials := slices.DeleteFunc(slices.Clone(views), func(v jobs.View) bool { return v.Trial == nil })
			if len(trials) > 0 {
				// Each fails of a trial that has ended meanwhile.
				switch one := trials[random.IntN(len(trials))].ID; random.IntN(12) {
				case 0:
					if len(views) > len(trials)+1 { // more would keep the trials from it for ever
						break
					}
					_, err = d.Submit(t.Context(), jobs.Submission{Key: fmt.Sprint(n), Config: config, Parent: filepath.Join(dir, "others"), Priority: 9})
					if err != nil {
						t.Fatal(err)
					}
				case 1:
					_, _ = d.Want(one, queue.Pause)
				case 2, 3, 4:
					for _, v := range trials {
						_, _ = d.Want(v.ID, queue.Run)
					}
				default:
					_, _ = d.SetPriority(one, random.IntN(3))
				}
			}
			time.Sleep(time.Duration(random.Int64N(often)))
		}
		views := d.Views()
		if got := outcome(t, views, j.ID); got != want {
			t.Errorf("after %d suspensions:\n%s\nwithout:\n%s", jobs.Suspensions(views), got, want)
		}
		suspended += jobs.Suspensions(views)
		for _, v := range views {
			attempts += len(v.Attempts)
		}
	}
	t.Logf("%d suspensions; jobs were opened %d times", suspended, attempts)
}

// TestSweepsAreKilled: a sweep whose daemon is killed again and again, while trials run and between them, ends as one
// that is left alone. Each daemon may live longer than the one before it, so
// that this ends on a busy machine, too. BERTH_KILLS=200 makes it long. Kills that made a job fail do not count: see watchSweep.
func TestSweepsAreKilled(t *testing.T) {
	testall.Long(t)
	t.Setenv(programIn, "test")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	text := sweepText(t, map[string]string{"halving": "true"})
	began := time.Now()
	want, _, _ := sweepOn(t, "cpu:1", text)
	long := int64(time.Since(began))
	total := 0
	for total < kills(t) {
		dir, id, killed, blamed := t.TempDir(), 0, 0, false
		for over := false; !over; {
			p := startProcess(t, dir)
			var again bool
			over, again, id = watchSweep(t, p, dir, text, time.Duration(random.Int64N(long*int64(4+killed)/16)))
			blamed = blamed || again
			p.kill(t)
			killed++
		}
		l, err := jobs.OpenLocal(filepath.Join(dir, "queue.db"))
		if err != nil {
			t.Fatal(err)
		}
		got, want := outcome(t, l.Views(), id), want
		if blamed { // while it had failed, another trial may have gone on in its place
			got, want = got[strings.LastIndex(got, "best "):], want[strings.LastIndex(want, "best "):]
		} else {
			total += killed - 1 // the last one came when it was over
		}
		if got != want {
			t.Errorf("after %d kills:\n%s\nwithout:\n%s", killed, got, want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills", total)
}

// watchSweep submits a sweep, once, and watches it for some time. over says that it ended. A trial that was blamed
// for the kills is tried again; blamed says that there was one.
func watchSweep(t *testing.T, p *process, dir, text string, patience time.Duration) (over, blamed bool, id int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := c.Submit(ctx, jobs.Submission{Key: "sweep", Config: jobs.Text(t, "train.epochs=6"), Sweep: text, Parent: filepath.Join(dir, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		list, _, err := c.Views(ctx)
		if err != nil {
			t.Fatal(err)
		}
		over = true // once no trial goes on, and none is tried again
		for _, v := range list {
			if v.State == queue.Failed && strings.Contains(v.Where, "the second time") {
				if _, err := c.Want(ctx, v.ID, queue.Run); err != nil {
					t.Fatal(err)
				}
				blamed, over = true, false
			}
			over = over && v.State.Over()
		}
		if over {
			break
		}
	}
	return over, blamed, j.ID
}

// TestFailedTrialsAgain: a sweep that is over, with a winner or without one, tries its failed trials again when it is resumed, and
// no others. It goes on with one of them that is resumed by its own number, too.
func TestFailedTrialsAgain(t *testing.T) {
	dir := t.TempDir()
	d := daemonIn(t, dir, "cpu:1")
	rows := strings.Repeat("1,2,a\n3,4,b\n", 20)
	path := func(name string) string { return filepath.Join(dir, name+".csv") }
	for _, c := range []struct {
		key   string
		names []string
		first queue.State
		each  bool // its trials are resumed, one after the other
	}{
		{"winner", []string{"a", "b", "c"}, queue.Finished, false}, {"none", []string{"d", "e", "f", "g"}, queue.Failed, false},
		{"a trial beside a winner", []string{"h", "i"}, queue.Finished, true}, {"a trial", []string{"k", "l", "m", "n"}, queue.Failed, true},
	} {
		list := ""
		for _, name := range c.names {
			list += path(name) + ", "
		}
		whole := len(c.names) - 1 // the one that is there
		if c.first == queue.Finished {
			whole = 0
		}
		if err := os.WriteFile(path(c.names[whole]), []byte(rows), 0o666); err != nil {
			t.Fatal(err)
		}
		config := "name: s\ndata: {source: csv, path: x.csv, label: 2}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 8}\n"
		j, err := d.Submit(t.Context(), jobs.Submission{Key: c.key, Config: []byte(config), Sweep: "sweep: {config: digits, vary: {data.path: [" + list + "]}}", Parent: filepath.Join(dir, "runs")})
		if err != nil {
			t.Fatal(err)
		}
		over := func(want queue.State) *jobs.Standing {
			t.Helper()
			for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				v, err := d.View(j.ID)
				if err != nil || time.Now().After(end) {
					t.Fatalf("the sweep is %s: %v", v.State, err)
				}
				if v.State.Over() {
					if v.State != want {
						t.Fatalf("the sweep is %s, expected %s: %s", v.State, want, v.Where)
					}
					if want == queue.Failed && v.Code() != 2 { // that of a file that is missing
						t.Errorf("the sweep ends with exit code %d", v.Code())
					}
					st, err := jobs.StandingOf(d.Views(), j.ID)
					if err != nil {
						t.Fatal(err)
					}
					return st
				}
			}
		}
		before := over(c.first)
		if _, err := d.Want(j.ID, queue.Pause); !errors.Is(err, queue.ErrState) {
			t.Errorf("paused: %v", err)
		}
		for i, name := range c.names {
			if i != whole {
				if err := os.WriteFile(path(name), []byte(rows), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		resume := []int{j.ID}
		if c.each {
			resume = nil
			for _, v := range before.Trials {
				if v != nil && v.State == queue.Failed {
					resume = append(resume, v.ID)
				}
			}
		}
		for _, id := range resume {
			if _, err := d.Want(id, queue.Run); err != nil {
				t.Fatal(err)
			}
		}
		for i, v := range over(queue.Finished).Trials {
			attempts := 1
			if was := before.Trials[i]; was != nil && was.State == queue.Failed {
				attempts = len(was.Attempts) + 1
			}
			if v.State != queue.Finished || len(v.Attempts) != attempts {
				t.Errorf("%s: trial %d is %s after %d attempts, expected %d: %s", c.key, i+1, v.State, len(v.Attempts), attempts, v.Where)
			}
		}
		if _, err := d.Want(j.ID, queue.Run); !errors.Is(err, queue.ErrState) {
			t.Errorf("resumed without failed trials: %v", err)
		}
	}
}
