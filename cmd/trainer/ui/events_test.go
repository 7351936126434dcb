package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/configs"
)

// appendTo appends a text to the metrics of a run.
func appendTo(t testing.TB, dir, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, rundir.MetricsName), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func line(step int, loss float64) string {
	return fmt.Sprintf(`{"step":%d,"epoch":9,"loss":%g,"learning_rate":0.1}`+"\n", step, loss)
}

func names(rows []rowOf) (list []string) {
	for _, r := range rows {
		list = append(list, filepath.Base(r.Run.Run))
	}
	slices.Sort(list)
	return list
}

// A stream has only what is new. One that is cut goes on from the version that the page has, whatever came meanwhile.
func TestStreamCutAndResumed(t *testing.T) {
	folder := copied(t, "a", "b", "c")
	c := serve(t, Options{Folder: folder})
	v := c.table(t)
	if got := names(v.Rows); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatal(got)
	}
	query := func() string { return fmt.Sprintf("instance=%s&since=%d", v.Instance, v.Version) }
	s := c.stream(t, query())
	var e tableOf
	if name := s.next(&e); name != "rows" || len(e.Rows)+len(e.Gone) > 0 {
		t.Errorf("without news: %s %+v", name, e)
	}
	appendTo(t, filepath.Join(folder, "b"), `{"epoch":9,"step":9000,"train_loss":0.25,"learning_rate":0.1}`+"\n")
	if name := s.next(&e); name != "rows" || !slices.Equal(names(e.Rows), []string{"b"}) || e.Rows[0].Run.Step != 9000 {
		t.Errorf("a boundary: %s %+v", name, e)
	}
	v.Version = e.Version
	s.cut()

	// Meanwhile one changes, one is deleted, and one is new.
	appendTo(t, filepath.Join(folder, "a"), `{"epoch":9,"step":7000,"train_loss":0.25,"learning_rate":0.1}`+"\n")
	if err := os.RemoveAll(filepath.Join(folder, "c")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(folder, "d"), os.DirFS(filepath.Join(once(), "r"))); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // a look may have seen a part of it
		now := c.table(t)
		at := slices.IndexFunc(now.Rows, func(r rowOf) bool { return filepath.Base(r.Run.Run) == "a" })
		return slices.Equal(names(now.Rows), []string{"a", "b", "d"}) && now.Rows[at].Run.Step == 7000
	})
	e = tableOf{}
	s = c.stream(t, query())
	if name := s.next(&e); name != "rows" || !slices.Equal(names(e.Rows), []string{"a", "d"}) || len(e.Gone) != 1 {
		t.Errorf("after a pause: %s %+v", name, e)
	}
	s.cut()

	// A version of another server, and one from the future, load anew.
	for _, query := range []string{"instance=x&since=1", fmt.Sprintf("instance=%s&since=999", v.Instance)} {
		if name := c.stream(t, query).next(nil); name != "reload" {
			t.Errorf("%s: %s", query, name)
		}
	}
}

// A watched run's checkpoints come as they are saved and deleted, though its curves stay as they are.
func TestStreamSaved(t *testing.T) {
	folder := copied(t, "a")
	c := serve(t, Options{Folder: folder})
	id, v := c.id(t, "a"), c.table(t)
	var had curvesOf
	c.get(t, "/api/curves?panel=loss&x=step&columns=100&run="+id, &had)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&x=step&run=%s", v.Instance, v.Version, id))
	for s.next(nil) != "anew" {
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(filepath.Join(folder, "a")), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := db.List()
	if err == nil {
		err = db.Delete(all[len(all)-1].ID)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	var now struct {
		Run string
		curvesOf
	}
	for name := s.next(&now); name != "saved"; name = s.next(&now) {
		if name == "anew" || name == "points" {
			t.Errorf("the curves have changed: %s", name)
		}
	}
	if now.Run != id || len(had.Checkpoints) != len(all) || !slices.Equal(now.Checkpoints, had.Checkpoints[1:]) {
		t.Errorf("%+v after %+v", now, had)
	}
}

// curvesOf is what this test reads of a panel.
type curvesOf struct{ Checkpoints []float64 }

// A watched run's points come as they are written; what changes otherwise is loaded anew.
func TestStreamPoints(t *testing.T) {
	folder := copied(t, "a")
	c := serve(t, Options{Folder: folder})
	id, v := c.id(t, "a"), c.table(t)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&x=step&run=%s&run=run-nothing", v.Instance, v.Version, id))
	for s.next(nil) != "anew" {
	}
	appendTo(t, filepath.Join(folder, "a"), line(5000, 0.5)+line(5001, 0.75))
	var p struct {
		Run    string
		Curves []struct {
			Field string
			X, Y  []float64
		}
	}
	for s.next(&p) != "points" {
	}
	if p.Run != id || len(p.Curves) != 2 {
		t.Fatalf("%+v", p)
	}
	for _, c := range p.Curves {
		if c.Field == "loss" && (!slices.Equal(c.X, []float64{5000, 5001}) || !slices.Equal(c.Y, []float64{0.5, 0.75})) {
			t.Errorf("%+v", c)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "a", rundir.MetricsName), []byte(line(1, 2)), 0o644); err != nil { // it resumes
		t.Fatal(err)
	}
	for name := s.next(nil); name != "anew"; name = s.next(nil) {
		if name == "points" {
			t.Error("points after what has changed")
		}
	}
}

// Rows that went long ago are forgotten, and who saw them last loads anew.
func TestForgottenRows(t *testing.T) {
	b := newBoard(t.Context(), t.TempDir(), nil)
	rows := map[string]row{}
	for i := range mostGone + 10 {
		id := fmt.Sprint("job-", i)
		rows[id] = row{ID: id, Job: &queued.Record{ID: i}}
	}
	b.show(rows, nil)
	b.show(map[string]row{}, nil)
	if _, _, known := b.since(b.instance, 1); known {
		t.Error("it is known what has gone, and was forgotten")
	}
	c, _, known := b.since(b.instance, 2)
	if !known || len(c.Rows)+len(c.Gone) > 0 || len(b.gone) > mostGone {
		t.Errorf("%v %+v, %d remembered", known, c, len(b.gone))
	}
}

// Jobs have rows: with their run where it is there, else alone.
func TestJobs(t *testing.T) {
	folder := copied(t, "a")
	elsewhere := copied(t, "z")
	var mu sync.Mutex
	list := []queued.Record{
		{ID: 1, State: "finished", Run: filepath.Join(folder, "a")},
		{ID: 2, State: "waiting", Run: filepath.Join(folder, "a"), Where: "needs 1 cpu: after 3"},
		{ID: 3, State: "running", Run: filepath.Join(folder, "not-yet")},
		{ID: 4, State: "finished", Run: filepath.Join(elsewhere, "z")},
	}
	c := serve(t, Options{Folder: folder, Jobs: func(context.Context) []queued.Record {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}})
	got := map[int]string{}
	for _, r := range c.table(t).Rows {
		state := ""
		if r.Run != nil {
			state = filepath.Base(r.Run.Run) + " " + r.Run.State
		}
		got[r.Job.ID] = state
	}
	for id, want := range map[int]string{1: "", 2: "a waiting", 3: "", 4: "z finished"} {
		if state, ok := got[id]; !ok || state != want {
			t.Errorf("job %d: %q, %v, want %q", id, state, ok, want)
		}
	}
	v := c.table(t)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d", v.Instance, v.Version))
	s.next(nil)
	mu.Lock()
	list = list[:3]
	list[2].Step = 7
	mu.Unlock()
	var e tableOf
	if s.next(&e); len(e.Rows) != 1 || e.Rows[0].Job.ID != 3 || len(e.Gone) != 1 {
		t.Errorf("%+v", e)
	}
}

// A run of the queue is resumed by the queue.
func TestCommandsOfJobs(t *testing.T) {
	of := &seen{shown: "runs/r", summary: &rundir.Summary{Condition: rundir.Completed}}
	for state, want := range map[string]string{
		"paused": "trainer jobs resume 7", "failed": "trainer jobs resume 7", "running": "trainer jobs show 7", "waiting": "trainer jobs show 7",
		"finished": "trainer eval runs/r",
	} {
		if list := commandsOf(of, &queued.Record{ID: 7, State: state}); list[0].Text != want {
			t.Errorf("%s: %+v, want %s first", state, list, want)
		}
	}
}

// What one does with a trained model is there for its kind, and nothing before it has a checkpoint.
func TestCommandsOfModels(t *testing.T) {
	of := &seen{shown: "runs/r", summary: &rundir.Summary{Condition: rundir.Completed, Config: &configs.Config{}, Newest: &checkpoint.Manifest{}}}
	for _, x := range []struct {
		data configs.Data
		want []string
	}{
		{configs.Data{Source: "csv"}, []string{"eval", "predict", "serve", "export"}},
		{configs.Data{Source: "lines", Label: "kind"}, []string{"eval", "predict", "serve", "export"}},
		{configs.Data{Source: "text"}, []string{"eval", "generate", "serve", "export"}},
		{configs.Data{Source: "lines"}, []string{"eval", "generate", "serve", "export"}},
	} {
		of.summary.Config.Data = x.data
		var got []string
		for _, c := range commandsOf(of, nil) {
			if verb, _, ok := strings.Cut(strings.TrimPrefix(c.Text, "trainer "), " runs/r"); ok && !strings.Contains(verb, " ") {
				got = append(got, verb)
			}
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.data, got, x.want)
		}
	}
	of.summary.Newest = nil
	if list := commandsOf(of, nil); len(list) != 2 {
		t.Errorf("without a checkpoint: %+v", list)
	}
}

// A shell that a command is pasted into gets the path, and a terminal no keys.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"runs/a-1": "runs/a-1", "-x": "./-x", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "\u202ea": "'\u202ea'",
		"a\x03\nrm 'x' \\": `$'a\u0003\u000arm \'x\' \\'`, "\x1b[201~b\u0085": `$'\u001b[201~b\u0085'`,
	} {
		if got := quoted(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Many rows are told in one event, and nothing is looked at while nobody watches.
func TestLooksOnlyWhileWatched(t *testing.T) {
	var mu sync.Mutex
	looks := 0
	c := serve(t, Options{Folder: t.TempDir(), Jobs: func(context.Context) []queued.Record {
		mu.Lock()
		defer mu.Unlock()
		looks++
		return nil
	}})
	v := c.table(t)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d", v.Instance, v.Version))
	s.next(nil)
	until(t, func() bool { mu.Lock(); defer mu.Unlock(); return looks >= 3 })
	s.cut()
	beats := c.s.board.pulse
	on := func() bool { beats.mu.Lock(); defer beats.mu.Unlock(); return beats.on }
	until(t, func() bool { return !on() })
}

// What a run's files say is never more than text, and its path can be copied into a shell.
func TestHostileRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names have no < there")
	}
	name := "<img src=x onerror=alert(1)>; $(touch x) 'y'"
	folder := copied(t, name)
	dir := filepath.Join(folder, name)
	appendTo(t, dir, `{"step":9,"epoch":0,"loss":1,"</script><script>alert(1)</script>":2,"__proto__":3}`+"\n")
	c := serve(t, Options{Folder: folder})
	id := c.id(t, name)
	status, body, h := c.do(t, c.request(t, "/api/run?run="+id))
	if status != 200 || h.Get("Content-Type") != "application/json" || strings.Contains(body, "<") {
		t.Errorf("%d %s: %s", status, h.Get("Content-Type"), body)
	}
	var p runPage
	c.get(t, "/api/run?run="+id, &p)
	want := "trainer eval '" + folder + `/<img src=x onerror=alert(1)>; $(touch x) '\''y'\'''`
	if !slices.ContainsFunc(p.Commands, func(c command) bool { return c.Text == want }) {
		t.Errorf("no command is %s: %+v", want, p.Commands)
	}
	for _, name := range []string{rundir.ConfigName, rundir.CheckpointsName, rundir.MetricsName, rundir.ReportName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{\x00\xff<script>"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/api/table?", "/api/run?run=" + id, "/api/curves?panel=loss&x=time&columns=10&run=" + id} {
		if status, body, _ := c.do(t, c.request(t, path)); status != 200 || strings.Contains(body, "<") {
			t.Errorf("damaged files, %s: %d %s", path, status, body)
		}
	}
}

// A run's page has its config beside the shipped one, its checkpoints and its curves.
func TestRunPage(t *testing.T) {
	folder := copied(t, "a")
	trained(t, filepath.Join(folder, "b"), 0, "train.batch=64")
	c := serve(t, Options{Folder: folder})
	a, b := c.id(t, "a"), c.id(t, "b")
	var p runPage
	c.get(t, "/api/run?run="+b, &p)
	differs := map[string]string{}
	for _, x := range p.Config.Bases[0].Differs {
		differs[x.Key] = x.Value
	}
	if len(p.Config.Bases) != 1 || p.Config.Bases[0].Name != "the shipped digits" || differs["train.batch"] != "32" || !slices.Contains(p.Config.Lines, setting{"train.batch", "64"}) || differs["optimizer.lr"] != "" {
		t.Errorf("the config differs by %+v", p.Config.Bases)
	}
	evals := 0
	for _, x := range p.Checkpoints {
		if x.Eval {
			evals++
			if !x.Best {
				t.Errorf("eval takes %+v, which is not the best", x)
			}
		}
	}
	if evals != 1 || p.Panels[0].Name != "loss" || len(p.Panels[0].Curves) != 3 {
		t.Errorf("%d checkpoints for eval, panels %+v", evals, p.Panels)
	}
	var curves struct {
		Unit        string
		Checkpoints []float64
		Boundaries  []float64
		Curves      []struct {
			Field string
			X, Y  []float64
		}
	}
	for _, unit := range []string{"step", "epoch", "time"} {
		c.get(t, "/api/curves?panel=loss&columns=50&x="+unit+"&run="+a, &curves)
		if curves.Unit != unit || len(curves.Checkpoints) != 3 || unit == "step" && !slices.Equal(curves.Boundaries, []float64{45, 90, 135}) || len(curves.Boundaries) != 3 || len(curves.Curves) != 3 || !slices.IsSorted(curves.Curves[0].X) || len(curves.Curves[0].X) > 100 {
			t.Errorf("by %s: %+v", unit, curves)
		}
	}
	c.get(t, "/api/curves?panel=loss&columns=50&x=step&from=10&to=20&run="+a, &curves)
	if x := curves.Curves[0].X; x[0] != 9 || x[len(x)-1] != 21 {
		t.Errorf("a part of the steps: %v", x)
	}
	var both struct {
		Runs   []rowOf
		Config []struct {
			Key    string
			Values []string
		}
	}
	c.get(t, "/api/compare?run="+a+"&run="+b, &both)
	if len(both.Runs) != 2 || len(both.Config) != 1 || both.Config[0].Key != "train.batch" {
		t.Errorf("compared: %+v", both)
	}
}

// A row with what JSON does not have is shown without that, and the others as they are.
func TestRowsThatJSONDoesNotHave(t *testing.T) {
	folder := copied(t, "a", "b")
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	jobs := func(context.Context) []queued.Record {
		return []queued.Record{{ID: 1, Name: "one", State: "waiting", Ends: &late}, {ID: 2, State: "running", Run: filepath.Join(folder, "a"), PausedAt: late}}
	}
	c := serve(t, Options{Folder: folder, Jobs: jobs})
	v := c.table(t)
	slices.SortFunc(v.Rows, func(a, b rowOf) int { return strings.Compare(a.ID, b.ID) })
	if len(v.Rows) != 3 || v.Rows[0].ID != "job-1" || v.Rows[0].Job.State != "waiting" {
		t.Fatalf("%+v", v.Rows)
	}
	for _, r := range v.Rows[1:] {
		if bad := filepath.Base(r.Run.Run) == "a"; bad != (r.Run.State == string(rundir.Unreadable)) || bad != strings.Contains(r.Run.Error, "year") {
			t.Errorf("%+v", r.Run)
		}
	}
	status, body, _ := c.do(t, c.request(t, "/api/run?run="+RunID(filepath.Join(folder, "a"))))
	if status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// A look that its time ends shows nothing of a folder and forgets nothing, and the next one goes on with what was read.
func TestLookThatEnds(t *testing.T) {
	b := newBoard(t.Context(), copied(t, "a", "b"), nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.fresh(ended); !errors.Is(err, context.Canceled) || len(b.rows) > 0 {
		t.Errorf("a look without time: %v, %d rows", err, len(b.rows))
	}
	if err := b.fresh(t.Context()); err != nil || len(b.rows) != 2 {
		t.Errorf("the next look: %v, %d rows", err, len(b.rows))
	}
	before, version := b.runs, b.version
	if b.look(ended) || len(b.runs) != 2 || len(b.rows) != 2 || b.version != version {
		t.Errorf("a later look without time: %d runs, %d rows", len(b.runs), len(b.rows))
	}
	if !b.look(t.Context()) || len(b.rows) != 2 {
		t.Errorf("the last look: %d rows", len(b.rows))
	}
	for dir, s := range b.runs {
		if before[dir].summary.Config != s.summary.Config {
			t.Errorf("%s is forgotten", dir)
		}
	}
}
