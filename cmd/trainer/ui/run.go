package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/charts"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/cmd/trainer/ui/curves"
	"github.com/berth-ml/berth/jobs/queue"
)

// runPage is what the page shows of one run, curves aside.
type runPage struct {
	ID          string           `json:"id"`
	Run         overview.Record  `json:"run"`
	Job         *queued.Record   `json:"job,omitempty"`
	Config      *configPage      `json:"config,omitempty"`
	Checkpoints []checkpointPage `json:"checkpoints"`
	Problem     string           `json:"problem,omitempty"` // of the checkpoints
	Commands    []command        `json:"commands"`
	Panels      []panel          `json:"panels"`
	Damaged     int              `json:"damaged,omitempty"` // lines of metrics.jsonl
}

type checkpointPage struct {
	ID      uint64             `json:"id"`
	Step    int                `json:"step"`
	Epoch   int                `json:"epoch"`
	Time    time.Time          `json:"time,omitzero"`
	Bytes   int64              `json:"bytes"`
	Metrics map[string]float64 `json:"metrics"`
	Best    bool               `json:"best,omitempty"`
	Eval    bool               `json:"eval,omitempty"` // eval takes it
}

// command is what one may want next.
type command struct {
	Does string `json:"does"`
	Text string `json:"text"`
}

// panel is curves that are drawn together.
type panel struct {
	Name   string      `json:"name"`
	Curves []curveName `json:"curves"`
}

type curveName struct {
	Field    string `json:"field"`
	Boundary bool   `json:"boundary,omitempty"`
}

// asked is the run that a request names.
func (s *Server) asked(ctx context.Context, id string) (*seen, error) {
	if err := s.board.fresh(ctx); err != nil {
		return nil, err
	}
	if err := s.board.hanging([]string{id}); err != nil {
		return nil, err
	}
	if run := s.board.run(id); run != nil {
		return run, nil
	}
	return nil, refused(http.StatusNotFound, "there is no such run: it has not begun yet, or was deleted")
}

// run answers GET /api/run?run=ID.
func (s *Server) run(ctx context.Context, r *http.Request) (any, error) {
	of, err := s.asked(ctx, r.URL.Query().Get("run"))
	if err != nil {
		return nil, err
	}
	job := s.board.job(of.id())
	p := &runPage{ID: of.id(), Run: of.recordWith(job.Resting()), Job: job, Checkpoints: []checkpointPage{}, Panels: []panel{}}
	p.Commands = commandsOf(of, p.Job)
	if of.summary.Condition == rundir.Unreadable && of.summary.Config == nil && of.summary.Newest == nil { // a link, say
		p.Problem = p.Run.Error
		return p, nil
	}
	h, err := s.library.read(ctx, of.dir)
	if err != nil {
		return nil, err
	}
	p.Panels, p.Damaged = panelsOf(h.Names()), h.Damaged()
	if p.Config, err = s.configOf(ctx, of); err != nil {
		return nil, err
	}
	p.Checkpoints, err = checkpointsOf(of.dir)
	if err != nil {
		p.Problem = err.Error()
	}
	return p, nil
}

// panelsOf are the panels of curves in their order.
func panelsOf(names []curves.Name) []panel {
	have, of := map[string]bool{}, map[string][]curveName{}
	for _, n := range names {
		subject := charts.SubjectOf(n.Field)
		have[subject] = true
		of[subject] = append(of[subject], curveName(n))
	}
	list := []panel{}
	for _, subject := range charts.Sorted(have) {
		list = append(list, panel{subject, of[subject]})
	}
	return list
}

// mostCheckpoints is how many are listed, the newest.
const mostCheckpoints = 200

// checkpointsOf lists the checkpoints of a run, the newest first, beside one that trains there.
func checkpointsOf(dir string) (list []checkpointPage, err error) {
	list = []checkpointPage{}
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if errors.Is(err, checkpoint.ErrNotFound) && !errors.Is(err, checkpoint.ErrDamaged) {
		return list, nil
	}
	if err != nil {
		return list, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	all, skipped, err := db.List()
	if err != nil {
		return list, err
	}
	best := checkpoint.BestOf(all)
	for i := len(all) - 1; i >= 0 && len(list) < mostCheckpoints; i-- {
		m := all[i]
		c := checkpointPage{ID: m.ID, Step: m.Step, Epoch: m.Epoch, Time: overview.Known(m.Time), Bytes: m.Bytes, Metrics: map[string]float64{}, Best: m.ID == best}
		c.Eval = c.Best || best == 0 && i == len(all)-1
		for name, x := range m.Metrics {
			if isFinite(x) {
				c.Metrics[name] = x
			}
		}
		list = append(list, c)
	}
	if len(skipped) > 0 {
		return list, skipped[0].Err
	}
	return list, nil
}

// commandsOf are commands for what one does next with a run. job is its job, nil for none: the queue resumes what it trains.
func commandsOf(of *seen, job *queued.Record) []command {
	dir, list := quoted(of.shown), []command{}
	add := func(does, text string) {
		if !slices.ContainsFunc(list, func(c command) bool { return c.Text == text }) {
			list = append(list, command{does, text})
		}
	}
	next := overview.Next(dir, of.summary, job.Resting())
	if job != nil {
		switch queue.State(job.State) {
		case queue.Failed:
			next = fmt.Sprintf("trainer jobs resume %d", job.ID)
		case queue.Running:
			next = fmt.Sprintf("trainer jobs show %d", job.ID)
		}
	}
	if next != "" {
		add("what most want next", next)
	}
	add("all about it in a terminal", "trainer runs show "+dir)
	if of.summary.Newest != nil {
		add("its quality on the validation or test part", "trainer eval "+dir)
		if of.summary.Config != nil && of.summary.Config.Data.Texts() {
			add("texts that it writes", "trainer generate "+dir)
		} else {
			add("its answers for the validation part; name a file for others", "trainer predict "+dir)
		}
		add("its answers over HTTP", "trainer serve "+dir)
		add("its weights for other programs", "trainer export "+dir+" --out weights.safetensors")
		add("its checkpoints", "trainer checkpoints ls "+dir)
	}
	if of.summary.Measured {
		add("its curves as a picture", "trainer plot "+dir+" -o curves.svg")
	}
	return list
}

// quoted is an argument for a shell: whoever copies it runs nothing else.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+=:@%,\\", r)
	}
	if filepath.Separator != '\\' {
		text = strings.ReplaceAll(text, "\x00", "")
	}
	if strings.HasPrefix(text, "-") {
		text = "./" + text
	}
	if strings.ContainsFunc(text, unicode.IsControl) { // a terminal takes them for keys, within quotes too
		var b strings.Builder
		for _, r := range text {
			switch {
			case r == '\'' || r == '\\':
				fmt.Fprintf(&b, `\%c`, r)
			case unicode.IsControl(r):
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				b.WriteRune(r)
			}
		}
		return "$'" + b.String() + "'"
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) || r == '\\' && filepath.Separator != '\\' }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// lineJSON is a curve, or a part of one. Where a value is null the metric is not defined.
type lineJSON struct {
	Field    string  `json:"field"`
	Boundary bool    `json:"boundary,omitempty"`
	X        numbers `json:"x"`
	Y        numbers `json:"y"`
}

func lineOf(n curves.Name, x, y []float64) lineJSON {
	return lineJSON{n.Field, n.Boundary, x, y}
}

// numbers are values to seven digits and more: enough for a picture.
type numbers []float64

// MarshalJSON writes NaN as null.
func (n numbers) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range n {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case !isFinite(x):
			b = append(b, "null"...)
		case x == math.Trunc(x) && math.Abs(x) < 1<<53:
			b = strconv.AppendInt(b, int64(x), 10)
		default:
			b = strconv.AppendFloat(b, x, 'g', 8, 64)
		}
	}
	return append(b, ']'), nil
}

const (
	mostColumns = 2000
	panelPoints = 2400 // of all curves of a panel: some 64 KiB
)

// curvesPage is a part of the curves of a panel.
type curvesPage struct {
	Unit        string     `json:"unit"` // of the axis: step where another is not known yet
	Curves      []lineJSON `json:"curves"`
	Checkpoints numbers    `json:"checkpoints"` // their places
	Boundaries  numbers    `json:"boundaries"`  // theirs; of many, some
}

// mostMarks is the most boundaries that are marked in a panel, about.
const mostMarks = 200

// boundariesOf are the places of boundaries within a span: those of the training loss, which every boundary has, or else of another
// curve.
func boundariesOf(h *curves.History, at curves.Axis, span curves.Span) numbers {
	names := h.Names()
	i := slices.Index(names, curves.Name{Field: "train_loss", Boundary: true})
	if i < 0 {
		i = slices.IndexFunc(names, func(n curves.Name) bool { return n.Boundary })
	}
	if i < 0 {
		return numbers{}
	}
	x, _ := h.Thin(names[i], at, span, mostMarks/2)
	return slices.Compact(x)
}

// curves answers GET /api/curves?run=ID&panel=NAME&x=UNIT&columns=N, with from=X&to=X for a part.
func (s *Server) curves(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	columns, err := strconv.Atoi(q.Get("columns"))
	if err != nil || columns < 1 || columns > mostColumns {
		return nil, refused(http.StatusBadRequest, "columns: give a number from 1 to %d", mostColumns)
	}
	if !slices.Contains(curves.Axes, q.Get("x")) {
		return nil, refused(http.StatusBadRequest, "x: give one of %s", strings.Join(curves.Axes, ", "))
	}
	var span curves.Span
	if q.Has("from") {
		var lost error
		span.From, err = strconv.ParseFloat(q.Get("from"), 64)
		span.To, lost = strconv.ParseFloat(q.Get("to"), 64)
		if err != nil || lost != nil || !(span.From < span.To) {
			return nil, refused(http.StatusBadRequest, "from and to: give numbers that ascend")
		}
	}
	of, err := s.asked(ctx, q.Get("run"))
	if err != nil {
		return nil, err
	}
	h, err := s.library.read(ctx, of.dir)
	if err != nil {
		return nil, err
	}
	at, _ := h.Axis(q.Get("x"), of.summary.EpochSteps)
	p := curvesPage{Unit: at.Unit, Curves: []lineJSON{}, Checkpoints: savedAt(of, at), Boundaries: boundariesOf(h, at, span)}
	for _, panel := range panelsOf(h.Names()) {
		if panel.Name != q.Get("panel") {
			continue
		}
		columns = max(1, min(columns, panelPoints/2/len(panel.Curves)))
		for _, c := range panel.Curves {
			x, y := h.Thin(curves.Name(c), at, span, columns)
			p.Curves = append(p.Curves, lineOf(curves.Name(c), x, y))
		}
	}
	return p, nil
}

// savedAt are the places of a run's checkpoints on an axis, the newest first.
func savedAt(of *seen, at curves.Axis) numbers {
	places, saved := numbers{}, of.summary.Saved
	for _, step := range slices.Backward(saved[max(0, len(saved)-mostCheckpoints):]) {
		places = append(places, at.At(float64(step)))
	}
	return places
}

// compare answers GET /api/compare?run=ID&run=ID.
func (s *Server) compare(ctx context.Context, r *http.Request) (any, error) {
	ids := r.URL.Query()["run"]
	if len(ids) < 2 || len(ids) > mostRuns {
		return nil, refused(http.StatusBadRequest, "choose from 2 to %d runs", mostRuns)
	}
	p := struct {
		Runs   []row                 `json:"runs"`
		Config []overview.Difference `json:"config"`
		Panels []panel               `json:"panels"`
	}{}
	var list []*rundir.Summary
	var names []curves.Name
	for _, id := range ids {
		of, err := s.asked(ctx, id)
		if err != nil {
			return nil, err
		}
		record := of.recordWith(s.board.job(of.id()).Resting())
		p.Runs = append(p.Runs, row{ID: of.id(), Run: &record})
		list = append(list, of.summary)
		h, err := s.library.read(ctx, of.dir)
		if err != nil && !errors.Is(err, rundir.ErrNotPlain) {
			return nil, err
		}
		names = append(names, h.Names()...)
	}
	slices.SortStableFunc(names, func(a, b curves.Name) int { return strings.Compare(a.Field, b.Field) })
	differ, err := overview.Differences(list)
	if err != nil {
		return nil, err
	}
	if p.Config = differ; differ == nil {
		p.Config = []overview.Difference{}
	}
	p.Panels = panelsOf(slices.Compact(names))
	return p, nil
}
