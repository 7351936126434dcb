package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/engine/osfile"
)

const (
	lookEvery = time.Second
	settles   = 3 * time.Second // a run whose files have changed is read again for so long: a lock may follow a file
	mostGone  = 4096            // rows that are remembered to have gone
)

// row is a run, a job, or both, as the page has it; or a sweep that has neither.
type row struct {
	ID    string           `json:"id"`
	Run   *overview.Record `json:"run,omitempty"`
	Job   *queued.Record   `json:"job,omitempty"`
	Sweep *sweepRow        `json:"sweep,omitempty"`
	Trial *trialRow        `json:"trial,omitempty"`
	Now   *outlook         `json:"now,omitempty"` // of a run that trains
}

// jobRow is the ID of the row of a job without a run folder of its own.
func jobRow(id int) string { return fmt.Sprintf("job-%d", id) }

// kept is a row with its text and the version in which that has changed.
type kept struct {
	row
	text    json.RawMessage
	version int64
}

// seen is a run folder as it was read last.
type seen struct {
	dir, shown string // shown is its name for people
	stamp      string // of the files that make it a run
	signature  string
	changed    time.Time
	summary    *rundir.Summary
	record     overview.Record // of summary, for rows
}

// gone is a row that is there no more.
type gone struct {
	id      string
	version int64
}

// board is what the table shows. It looks once a second while somebody watches, and when somebody asks.
type board struct {
	folder string
	jobs   func(context.Context) []queued.Record
	step   func(dir string) (at, of int, ok bool) // as [Options] has it
	pulse  pulse

	looking sync.Mutex // one look at a time
	runs    map[string]*seen
	groups  groups

	mu       sync.Mutex
	instance string // tells the versions of this board from those of an earlier server
	at       time.Time
	version  int64
	rows     map[string]kept
	dirs     map[string]*seen // runs by ID
	gone     []gone
	floor    int64         // what has gone before this version is forgotten
	news     chan struct{} // closed at the next version
}

func newBoard(life context.Context, folder string, jobs func(context.Context) []queued.Record) *board {
	if jobs == nil {
		jobs = func(context.Context) []queued.Record { return nil }
	}
	b := &board{
		folder: folder, jobs: jobs, step: func(string) (at, of int, ok bool) { return 0, 0, false }, runs: map[string]*seen{}, rows: map[string]kept{}, dirs: map[string]*seen{},
		instance: fmt.Sprintf("%x", time.Now().UnixNano()), news: make(chan struct{}),
	}
	b.pulse = pulse{life: life, look: b.look}
	return b
}

// fresh looks, unless the last look is younger than a second. The error is that of ctx, which has ended the first look.
func (b *board) fresh(ctx context.Context) error {
	b.mu.Lock()
	age := time.Since(b.at)
	b.mu.Unlock()
	if age >= lookEvery {
		b.look(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		return context.Cause(ctx)
	}
	return nil
}

// look looks at all runs and jobs. Of a run whose files stand as before it reads nothing.
func (b *board) look(ctx context.Context) {
	b.looking.Lock()
	defer b.looking.Unlock()
	b.mu.Lock()
	age := time.Since(b.at)
	b.mu.Unlock()
	if age < lookEvery/2 { // somebody else has, while this look waited
		return
	}
	jobs := b.jobs(ctx)
	runs := b.find(jobs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range runs {
		if ctx.Err() == nil {
			group.Go(func() error { s.read(); return nil })
		}
	}
	_ = group.Wait()
	b.runs = runs // the next look goes on with what this one has read
	if ctx.Err() == nil {
		b.show(b.joined(runs, jobs), runs)
	}
}

// find lists the run folders by their real paths: those of the board's folder, the trials in folders there, and those of jobs.
// Links are left out.
func (b *board) find(jobs []queued.Record) map[string]*seen {
	runs := map[string]*seen{}
	add := func(shown, real string) (is bool) {
		if runs[real] != nil {
			return true
		}
		s, stamp := &seen{dir: real, shown: shown}, stampOf(real)
		if before := b.runs[real]; before != nil {
			s = before
		}
		if stamp == "" || s.stamp != stamp && !rundir.IsRun(real) { // which reads the config of a run without checkpoints
			return false
		}
		s.stamp = stamp
		runs[real] = s
		return true
	}
	list, _ := os.ReadDir(b.folder) // a folder that is not there has no runs
	within := realPath(b.folder)
	for _, f := range list {
		if !f.IsDir() { // or a link
			continue
		}
		dir, real := filepath.Join(b.folder, f.Name()), filepath.Join(within, f.Name())
		if !add(dir, real) {
			for _, trial := range trialFolders(dir) {
				add(trial, filepath.Join(real, filepath.Base(trial)))
			}
		}
	}
	for _, j := range jobs {
		if st, err := os.Lstat(j.Run); err == nil && st.IsDir() {
			add(shortPath(j.Run), realPath(j.Run))
		}
	}
	return runs
}

// stampOf tells whether the files that make a folder a run are as they were; "": there are none.
func stampOf(dir string) string {
	var text strings.Builder
	for _, name := range []string{rundir.CheckpointsName, rundir.ConfigName, rundir.MetricsName} {
		if st, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			fmt.Fprintf(&text, "%s %d %d %v\n", name, st.Size(), st.ModTime().UnixNano(), st.Mode())
		}
	}
	return text.String()
}

// shortPath is a path from the working folder where it is in that.
func shortPath(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// realPath is a path without links, from the root.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// ownFiles are the files of a run that the page reads.
var ownFiles = []string{rundir.ConfigName, rundir.MetricsName, rundir.CheckpointsName, rundir.ReportName}

// read reads a run whose files have changed lately.
func (s *seen) read() {
	var text strings.Builder
	var written time.Time
	link := ""
	for _, name := range ownFiles {
		st, err := os.Lstat(filepath.Join(s.dir, name))
		if err != nil {
			continue
		}
		if !st.Mode().IsRegular() {
			link = name
		}
		if st.ModTime().After(written) {
			written = st.ModTime()
		}
		fmt.Fprintf(&text, "%s %d %d %v\n", name, st.Size(), st.ModTime().UnixNano(), st.Mode())
	}
	pid, alive := osfile.LeftPid(rundir.CheckpointPath(s.dir))
	fmt.Fprint(&text, pid, alive)
	now := time.Now()
	switch {
	case s.signature == "": // the first look
		s.signature, s.changed = text.String(), written
	case s.signature != text.String():
		s.signature, s.changed = text.String(), now
	case now.Sub(s.changed) > settles:
		return
	}
	if link != "" {
		s.summary = &rundir.Summary{Condition: rundir.Unreadable, Problem: fmt.Errorf("%s is a link or no plain file, which the page does not follow", link)}
		s.record = overview.RecordOf(s.shown, s.summary)
		return
	}
	s.summary = rundir.SummarizeAgain(s.dir, s.summary)
	s.record = finite(overview.RecordOf(s.shown, s.summary))
}

// id names a run in requests.
func (s *seen) id() string {
	sum := sha256.Sum256([]byte(s.dir))
	return "run-" + hex.EncodeToString(sum[:8])
}

// joined are the rows: each run with its newest job, and the jobs that have no run folder of their own.
func (b *board) joined(runs map[string]*seen, jobs []queued.Record) map[string]row {
	rows := map[string]row{}
	ids := map[string]string{} // of runs by folder
	for dir, s := range runs {
		record, now := s.record, outlookOf(s.summary) // a copy: a job may change its state
		if now != nil {
			if at, of, ok := b.step(dir); ok {
				record.Step, record.Steps, now.Live = max(record.Step, at), of, true
			}
		}
		ids[dir] = s.id()
		rows[s.id()] = row{ID: s.id(), Run: &record, Now: now}
	}
	newest := map[string]int{} // jobs by the run that they train
	of := func(j *queued.Record) string {
		if j.As != 0 || j.Run == "" { // nothing was trained for it
			return ""
		}
		return ids[realPath(j.Run)]
	}
	for i := range jobs {
		newest[of(&jobs[i])] = max(newest[of(&jobs[i])], jobs[i].ID)
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Loss != nil && !isFinite(*j.Loss) {
			j.Loss = nil
		}
		if id := of(j); id != "" && newest[id] == j.ID {
			r := rows[id]
			r.Job = j
			if j.State == "waiting" && r.Run.State != string(rundir.Running) {
				r.Run.State = j.State
			}
			rows[id] = r
			continue
		}
		rows[jobRow(j.ID)] = row{ID: jobRow(j.ID), Job: j}
	}
	b.sweeps(rows, runs, func(dir string) string { return ids[realPath(dir)] })
	return rows
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// finite is a record without numbers that JSON does not have.
func finite(r overview.Record) overview.Record {
	maps.DeleteFunc(r.Metrics, func(_ string, x float64) bool { return !isFinite(x) })
	if r.Best != nil && !isFinite(r.Best.Value) {
		r.Best = nil
	}
	return r
}

// show makes rows what the board shows.
func (b *board) show(rows map[string]row, runs map[string]*seen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.version + 1
	changed := false
	for id, r := range rows {
		text, err := json.Marshal(r)
		if err != nil { // a time behind the year 9999, say
			r = plainRow(r, err)
			if text, err = json.Marshal(r); err != nil {
				panic("BUG: " + err.Error())
			}
		}
		if before, ok := b.rows[id]; !ok || string(before.text) != string(text) {
			b.rows[id] = kept{r, text, next}
			changed = true
		}
	}
	for id := range b.rows {
		if _, ok := rows[id]; !ok {
			delete(b.rows, id)
			b.gone = append(b.gone, gone{id, next})
			changed = true
		}
	}
	if n := len(b.gone) - mostGone; n > 0 {
		b.floor = b.gone[n-1].version
		b.gone = slices.Delete(b.gone, 0, n)
	}
	b.dirs = map[string]*seen{}
	for _, s := range runs {
		copied := *s
		b.dirs[s.id()] = &copied
	}
	b.at = time.Now()
	if changed {
		b.version = next
		close(b.news)
		b.news = make(chan struct{})
	}
}

// plainRow is a row without what JSON does not have.
func plainRow(r row, why error) row {
	p := row{ID: r.ID}
	if r.Run != nil {
		p.Run = &overview.Record{Run: r.Run.Run, State: string(rundir.Unreadable), Error: why.Error()}
	}
	if r.Job != nil {
		p.Job = &queued.Record{ID: r.Job.ID, Name: r.Job.Name, State: r.Job.State, Where: why.Error()}
	}
	return p
}

// change is what the table has got since a version.
type change struct {
	Instance string            `json:"instance"`
	Version  int64             `json:"version"`
	Rows     []json.RawMessage `json:"rows"`
	Gone     []string          `json:"gone,omitempty"`
}

// since is what has changed after a version, and a channel that is closed when more has. known is false where the version is
// not of this board, or so old that it is not known what has gone since.
func (b *board) since(instance string, version int64) (c change, news <-chan struct{}, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c = change{Instance: b.instance, Version: b.version, Rows: []json.RawMessage{}}
	if instance != b.instance || version < b.floor || version > b.version {
		return c, b.news, false
	}
	for _, k := range b.rows {
		if k.version > version {
			c.Rows = append(c.Rows, k.text)
		}
	}
	for _, g := range b.gone {
		if g.version > version {
			if _, back := b.rows[g.id]; !back {
				c.Gone = append(c.Gone, g.id)
			}
		}
	}
	return c, b.news, true
}

// all is the whole table.
func (b *board) all() change {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := change{Instance: b.instance, Version: b.version, Rows: []json.RawMessage{}}
	for _, k := range b.rows {
		c.Rows = append(c.Rows, k.text)
	}
	return c
}

// run is a run by its ID, as it was read last; nil where there is none.
func (b *board) run(id string) *seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dirs[id]
}

// job is the job of a row; nil for none.
func (b *board) job(id string) *queued.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rows[id].Job
}

// runOf is the run that a job trains or has trained; nil for none.
func (b *board) runOf(job int) *seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, r := range b.rows {
		if r.Job == nil || r.Job.ID != job {
			continue
		}
		if r.Trial != nil && r.Trial.As != "" {
			id = r.Trial.As
		}
		return b.dirs[id]
	}
	return nil
}
