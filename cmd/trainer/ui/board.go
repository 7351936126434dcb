package ui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

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
	hangs      error           // why the folder cannot be looked at now; nil: it can
}

// gone is a row that is there no more.
type gone struct {
	id      string
	version int64
}

// board is what the table shows.
type board struct {
	life   context.Context // of the server
	folder string
	jobs   func(context.Context) []queued.Record
	step   func(dir string) (at, of int, ok bool) // as [Options] has it
	pulse  *pulse

	// Of the one look that there is at a time:
	visits *visits
	within string            // the folder's path without links; "": it has not answered yet
	queue  []queued.Record   // the jobs; nil: not known yet
	reals  map[string]string // run folders of jobs without links
	runs   map[string]*seen  // none of which changes
	groups groups

	mu       sync.Mutex
	instance string // tells the versions of this board from those of an earlier server
	version  int64
	rows     map[string]kept
	dirs     map[string]*seen // runs by ID
	gone     []gone
	floor    int64         // what has gone before this version is forgotten
	news     chan struct{} // closed at the next version
	away     error         // why the folder itself cannot be looked at; nil: it can
	told     bool          // the queue has answered, with its jobs or that there are none
}

func newBoard(life context.Context, folder string, jobs func(context.Context) []queued.Record) *board {
	if jobs == nil {
		jobs = func(context.Context) []queued.Record { return []queued.Record{} }
	}
	b := &board{
		life: life, folder: folder, jobs: jobs, step: func(string) (at, of int, ok bool) { return 0, 0, false }, runs: map[string]*seen{}, rows: map[string]kept{}, dirs: map[string]*seen{},
		instance: fmt.Sprintf("%x", time.Now().UnixNano()), news: make(chan struct{}),
		visits: newVisits(),
	}
	b.pulse = newPulse(life, b.look)
	return b
}

// fresh looks, unless the last look is younger than a second. The error is that of ctx, which has ended the first look, or why the
// folder cannot be looked at.
func (b *board) fresh(ctx context.Context) error {
	if !b.pulse.fresh(ctx) {
		return context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) == 0 {
		return b.away
	}
	return nil
}

// look looks at all runs and jobs. Of a run whose files stand as before it reads nothing, and one whose folder does not answer it
// leaves behind. A look that its time ends shows nothing.
func (b *board) look(ctx context.Context) (whole bool) {
	b.visits.anew()
	queue := b.visits.key(ctx, queueKey, func() found { return found{jobs: b.jobs(b.life)} }) // it may outlive this look
	if f, ok := b.visits.end(ctx, queueKey, queue); ok {
		b.queue = f.jobs
	}
	jobs := slices.Clone(b.queue)
	runs, away := b.find(ctx, jobs)
	b.runs = runs // the next look goes on with what this one has read
	if ctx.Err() != nil {
		return false
	}
	b.mu.Lock()
	b.away, b.told = away, jobs != nil
	b.mu.Unlock()
	b.show(b.joined(runs, jobs), runs)
	return true
}

// find visits the run folders, by their real paths: those of the board's folder, the trials in folders there, and those of jobs.
// Links are left out. away is why the board's folder cannot be looked at.
func (b *board) find(ctx context.Context, jobs []queued.Record) (runs map[string]*seen, away error) {
	x := survey{ctx: ctx, b: b, runs: map[string]*seen{}, visited: map[string]bool{}, answered: map[string]bool{}}
	root := b.visits.key(ctx, rootKey, func() found { return visitRoot(b.folder) })
	var spots []spot
	if f, ok := b.visits.end(ctx, rootKey, root); ok {
		b.within = f.real
		for _, name := range f.inside {
			path := filepath.Join(b.folder, name)
			spots = append(spots, spot{path: path, shown: path, real: filepath.Join(b.within, name), holds: true})
		}
	} else {
		away = refused(http.StatusServiceUnavailable, "%s: %v", b.folder, hangs(root))
		if b.within != "" {
			x.keep(spot{real: b.within}, hangs(root))
		}
	}
	trials := x.visit(spots)
	for _, sp := range trials {
		x.visited[sp.real] = true
	}
	reals := map[string]string{}
	for i := range jobs {
		path := jobs[i].Run
		if _, known := reals[path]; path == "" || known {
			continue
		}
		real := cmp.Or(b.reals[path], filepath.Clean(path))
		if reals[path] = real; !x.visited[real] && !x.silent(real) {
			trials = append(trials, spot{path: path, shown: shortPath(path)})
		}
	}
	b.reals = reals
	x.visit(trials)
	if ctx.Err() == nil {
		b.visits.answered = x.answered
	}
	return x.runs, away
}

// survey is a look at folders.
type survey struct {
	ctx      context.Context
	b        *board
	runs     map[string]*seen // that were found, by their real paths
	visited  map[string]bool  // real paths
	answered map[string]bool  // paths of folders that did
	mute     []string         // real paths of folders that do not answer
}

// visit visits folders, and adds the runs among them. Those that do not answer stay as they were, and say so. inside are folders in
// them that may be trials.
func (x *survey) visit(spots []spot) (inside []spot) {
	b, under := x.b, make([]*visit, len(spots))
	before := b.runs
	for _, answered := range []bool{true, false} { // those that answered the last time do not wait for the others
		for i, sp := range spots {
			if b.visits.answered[sp.path] == answered {
				under[i] = b.visits.begin(x.ctx, sp.path, func() found { return sp.visit(before) })
			}
		}
	}
	for i, sp := range spots {
		f, ok := b.visits.end(x.ctx, sp.path, under[i])
		switch {
		case !ok && x.ctx.Err() != nil: // this look shows nothing
			x.keep(sp, nil)
			continue
		case !ok:
			sp.real = cmp.Or(sp.real, b.reals[sp.path])
			x.keep(sp, hangs(under[i]))
			continue
		}
		x.visited[f.real], x.answered[sp.path] = true, true
		if sp.real == "" && f.real != "" {
			b.reals[sp.path] = f.real
		}
		if f.run != nil && x.runs[f.real] == nil {
			x.runs[f.real] = f.run
		}
		for _, path := range f.inside {
			inside = append(inside, spot{path: path, shown: path, real: filepath.Join(f.real, filepath.Base(path))})
		}
	}
	return inside
}

// keep keeps the run in a folder and those below it as they were. why says why they are not looked at; nil: the next look does.
// A folder that has never answered is a row, too: it may be a run.
func (x *survey) keep(sp spot, why error) {
	known := false
	for dir, s := range x.b.runs {
		if dir != sp.real && !strings.HasPrefix(dir, sp.real+string(filepath.Separator)) {
			continue
		}
		if known = true; why != nil {
			copied := *s
			copied.hangs = why
			s = &copied
		}
		x.runs[dir] = s
	}
	if why == nil {
		return
	}
	x.mute = append(x.mute, sp.real)
	if !known && sp.path != "" {
		s := &seen{dir: sp.real, shown: sp.shown, summary: &rundir.Summary{Condition: rundir.Unreadable}, hangs: why}
		s.record = overview.RecordOf(s.shown, s.summary, nil)
		x.runs[s.dir] = s
	}
}

// silent reports whether a folder is, or is in, one that does not answer.
func (x *survey) silent(real string) bool {
	return slices.ContainsFunc(x.mute, func(dir string) bool { return real == dir || strings.HasPrefix(real, dir+string(filepath.Separator)) })
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

// read reads a run whose files have changed lately.
func (s *seen) read() {
	s.hangs = nil
	var text strings.Builder
	var written time.Time
	for _, name := range rundir.ReadFiles {
		st, err := os.Lstat(filepath.Join(s.dir, name))
		if err != nil {
			continue
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
	s.summary = rundir.SummarizeAgain(s.dir, s.summary)
	s.record = finite(overview.RecordOf(s.shown, s.summary, nil))
}

// id names a run in requests.
func (s *seen) id() string {
	sum := sha256.Sum256([]byte(s.dir))
	return "run-" + hex.EncodeToString(sum[:8])
}

// recordWith is the run for people. rests is its job, if that rests.
func (s *seen) recordWith(rests *overview.Resting) overview.Record {
	r := s.record
	if rests != nil {
		r = finite(overview.RecordOf(s.shown, s.summary, rests))
	}
	if s.hangs != nil {
		r.State, r.Error = string(rundir.Unreadable), s.hangs.Error()
	}
	return r
}

// joined are the rows: each run with its newest job, and the jobs that have no run folder of their own.
func (b *board) joined(runs map[string]*seen, jobs []queued.Record) map[string]row {
	rows := map[string]row{}
	ids := map[string]string{} // of runs by folder
	for dir, s := range runs {
		record := s.recordWith(nil)
		ids[dir] = s.id()
		r := row{ID: s.id(), Run: &record}
		if s.hangs == nil {
			r.Now = outlookOf(s.summary)
		}
		if r.Now != nil {
			if at, of, ok := b.step(dir); ok {
				record.Step, record.Steps, r.Now.Live = max(record.Step, at), of, true
			}
		}
		rows[s.id()] = r
	}
	newest := map[string]int{} // jobs by the run that they train
	of := func(j *queued.Record) string {
		if j.As != 0 || j.Run == "" { // nothing was trained for it
			return ""
		}
		return ids[b.reals[j.Run]]
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
			if rests := j.Resting(); rests != nil {
				record := runs[b.reals[j.Run]].recordWith(rests)
				r.Run = &record
			}
			rows[id] = r
			continue
		}
		rows[jobRow(j.ID)] = row{ID: jobRow(j.ID), Job: j}
	}
	b.sweeps(rows, runs, func(dir string) string { return ids[b.reals[dir]] })
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
		b.dirs[s.id()] = s
	}
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
