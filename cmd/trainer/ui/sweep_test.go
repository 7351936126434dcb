package ui

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
)

// sweepOf is what the page has of rows that are sweeps or trials, by ID.
type sweepOf struct {
	ID    string
	Job   *struct{ ID int }
	Run   *struct{ Run, State string }
	Sweep *sweepRow
	Trial *trialRow
}

func (c *client) sweeps(t testing.TB) map[string]sweepOf {
	t.Helper()
	var x struct{ Rows []sweepOf }
	c.get(t, "/api/table", &x)
	list := map[string]sweepOf{}
	for _, r := range x.Rows {
		list[r.ID] = r
	}
	return list
}

// A sweep of the queue and its trials have rows: trials that have a run, none yet, that of another job, and no finite value.
func TestSweepOfQueue(t *testing.T) {
	folder := copied(t, "other")
	if err := os.Mkdir(filepath.Join(folder, "s"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(folder, "s", "trial-001"), os.DirFS(filepath.Join(once(), "r"))); err != nil {
		t.Fatal(err)
	}
	const hostile = "<img src=x onerror=alert(1)>"
	value, nan := 0.25, math.NaN()
	var mu sync.Mutex
	list := []queued.Record{
		{ID: 1, State: "running", Run: filepath.Join(folder, "s"), Varied: &queued.Varied{Metric: "val_loss", Lower: true, Trials: 4, Vary: []queued.Dimension{
			{Key: hostile, Values: []string{hostile, "b"}}, {Key: "optimizer.lr", Lo: 1e-4, Hi: 1e-1, Log: true}}}},
		{ID: 2, State: "finished", Run: filepath.Join(folder, "s", "trial-001"), Sweep: 1, Trial: 1, Tried: &queued.Tried{Settings: []string{hostile, "0.01"}, Value: &value}},
		{ID: 3, State: "waiting", Run: filepath.Join(folder, "s", "trial-002"), Sweep: 1, Trial: 2, Tried: &queued.Tried{Settings: []string{"b", "0.02"}, Out: true}},
		{ID: 4, State: "finished", Run: filepath.Join(folder, "other"), As: 9, Sweep: 1, Trial: 3, Tried: &queued.Tried{Settings: []string{"b", "0.03"}, Value: &nan}},
	}
	c := serve(t, Options{Folder: folder, Jobs: func(context.Context) []queued.Record {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}})
	rows := c.sweeps(t)
	s := rows["job-1"]
	if s.Sweep == nil || s.Sweep.Trials != 4 || s.Sweep.Folder || s.Sweep.Vary[0].Key != hostile || !s.Sweep.Vary[1].Log || s.Trial != nil {
		t.Fatalf("the sweep: %+v", s.Sweep)
	}
	own := c.id(t, "trial-001")
	if r := rows[own]; r.Trial == nil || r.Trial.Of != "job-1" || r.Trial.Number != 1 || *r.Trial.Value != value || r.Trial.Settings[0] != hostile || r.Run == nil || r.Job.ID != 2 {
		t.Errorf("a trial with a run: %+v", r)
	}
	if r := rows["job-3"]; r.Trial == nil || r.Run != nil || r.Trial.Value != nil || !r.Trial.Out {
		t.Errorf("a trial without a run: %+v", r)
	}
	if r := rows["job-4"]; r.Trial == nil || r.Trial.As != c.id(t, "other") || r.Trial.Value != nil {
		t.Errorf("a trial that was trained before, of NaN: %+v", r.Trial)
	}
	if rows[c.id(t, "other")].Trial != nil || len(rows) != 5 {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
	if status, body, _ := c.do(t, c.request(t, "/api/table")); status != 200 || strings.Contains(body, "<") {
		t.Errorf("%d %s", status, body)
	}

	// What a trial reaches comes by the stream, and nothing else.
	v := c.table(t)
	stream := c.stream(t, fmt.Sprintf("instance=%s&since=%d", v.Instance, v.Version))
	stream.next(nil)
	mu.Lock()
	list[2].Tried = &queued.Tried{Settings: []string{"b", "0.02"}, Value: &value}
	mu.Unlock()
	var e struct{ Rows []sweepOf }
	if stream.next(&e); len(e.Rows) != 1 || e.Rows[0].ID != "job-3" || *e.Rows[0].Trial.Value != value || e.Rows[0].Trial.Out {
		t.Errorf("news of a trial: %+v", e.Rows)
	}
}

// A sweep of which no job tells has the keys in which the configs of its trials differ.
func TestSweepOfFolders(t *testing.T) {
	folder := t.TempDir()
	s := filepath.Join(folder, "s")
	for i, lr := range []string{"0.001", "0.1", "0.01"} {
		trained(t, filepath.Join(s, fmt.Sprintf("trial-%03d", i+1)), 2, "optimizer.lr="+lr, "model.hidden="+[]string{"[8]", "[8]", "[4, 4]"}[i], "checkpoint.best=val_accuracy")
	}
	broken := filepath.Join(s, "trial-004")
	if err := os.CopyFS(broken, os.DirFS(filepath.Join(s, "trial-001"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{rundir.ConfigName, "checkpoints.db"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte("\x00<script>"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, filepath.Join(s, "trial-002"), `{"epoch":0,"step":3,"train_loss":NaN,"val_accuracy":1e999}`+"\n")
	elsewhere := copied(t, "a")
	if runtime.GOOS != "windows" {
		if err := os.Symlink(filepath.Join(elsewhere, "a"), filepath.Join(s, "trial-005")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(s, filepath.Join(folder, "again")); err != nil {
			t.Fatal(err)
		}
	}
	c := serve(t, Options{Folder: folder})
	var sweep sweepOf
	trials := map[int]*trialRow{}
	for _, r := range c.sweeps(t) {
		if r.Sweep != nil {
			sweep = r
		}
		if r.Trial != nil {
			trials[r.Trial.Number] = r.Trial
		}
	}
	if sweep.Sweep == nil || !sweep.Sweep.Folder || sweep.Sweep.Metric != "val_accuracy" || sweep.Sweep.Lower || filepath.Base(sweep.Sweep.Name) != "s" || len(trials) != 4 || sweep.Sweep.Trials != 4 {
		t.Fatalf("the sweep: %+v of %d trials", sweep.Sweep, len(trials))
	}
	keys := map[string]int{}
	for i, d := range sweep.Sweep.Vary {
		keys[d.Key] = i
	}
	lr, hidden := sweep.Sweep.Vary[keys["optimizer.lr"]], sweep.Sweep.Vary[keys["model.hidden"]]
	if len(keys) != 2 || !lr.Log || lr.Lo != 0.001 || lr.Hi != 0.1 || lr.Values != nil || !slices.Equal(hidden.Values, []string{"[4, 4]", "[8]"}) {
		t.Errorf("the keys that vary: %+v", sweep.Sweep.Vary)
	}
	if x := trials[3]; x.Of != sweep.ID || x.Settings[keys["optimizer.lr"]] != "0.01" || x.Settings[keys["model.hidden"]] != "[4, 4]" {
		t.Errorf("trial 3: %+v", x)
	}
	if x := trials[4]; x.Settings[0] != "" { // its config cannot be read
		t.Errorf("trial 4: %+v", x)
	}
}

// A key is taken to vary by magnitude, by whole numbers or by words as its values are.
func TestDimension(t *testing.T) {
	for _, x := range []struct {
		values []string
		want   queued.Dimension
	}{
		{[]string{"1", "3", "2"}, queued.Dimension{Key: "k", Lo: 1, Hi: 3, Whole: true}},
		{[]string{"0.5", "1e-3"}, queued.Dimension{Key: "k", Lo: 1e-3, Hi: 0.5, Log: true}},
		{[]string{"-0.5", "1"}, queued.Dimension{Key: "k", Lo: -0.5, Hi: 1}},
		{[]string{"NaN", "1"}, queued.Dimension{Key: "k", Values: []string{"1", "NaN"}}},
		{[]string{"1e999", "x", "x"}, queued.Dimension{Key: "k", Values: []string{"1e999", "x"}}},
		{[]string{"", "1"}, queued.Dimension{Key: "k", Values: []string{"", "1"}}},
	} {
		if got := dimensionOf("k", x.values); fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("%q: %+v, want %+v", x.values, got, x.want)
		}
	}
}

// A folder is judged anew when the files that make it a run have changed, and not before.
func TestRunNoMore(t *testing.T) {
	folder := copied(t, "a")
	b := newBoard(t.Context(), folder, nil)
	rows := func() int {
		b.look(t.Context())
		return len(b.rows)
	}
	dir := filepath.Join(folder, "a")
	for _, name := range []string{rundir.CheckpointsName, rundir.MetricsName} {
		for range 2 {
			if n := rows(); n != 1 {
				t.Fatalf("%d rows before %s is deleted", n, name)
			}
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if n := rows(); n != 0 {
		t.Errorf("%d rows of a folder that is no run", n)
	}
}
