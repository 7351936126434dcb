package curves

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/filecache"
)

// Name is a curve of a history: a field of metrics.jsonl, of its lines of steps or of boundaries.
type Name struct {
	Field    string
	Boundary bool
}

const (
	mostFields = 64      // of steps, and of boundaries; a file with more is none of a run
	largest    = 1e100   // a larger number cannot be drawn
	mostPoints = 4 << 20 // of all curves of a history, 16 bytes each; beyond, the longest one is halved
)

// History is what a run has measured. Its methods are safe for concurrent use.
type History struct {
	dir   string
	most  int               // points of all curves
	index *filecache.Folder // of indexes; nil: there is none

	held atomic.Int64 // points, for those who do not wait for a read

	mu      sync.Mutex
	curves  map[Name]*curve
	points  int
	epochs  rundir.EpochLength
	clock   clock
	damaged int

	file    os.FileInfo // that was read; nil: none
	size    int64       // of it
	at      int64       // bytes read
	known   anchors     // some of them
	indexed int64       // bytes that the index is of, or was to be of; 0: none
	looked  bool        // for the index
	changed int         // goes up when earlier points have changed
}

// Open is the history of a run folder, of which nothing is read yet.
func Open(dir string) *History {
	return &History{dir: dir, most: mostPoints, curves: map[Name]*curve{}}
}

// Read reads what is new in metrics.jsonl, at first what the index does not have. A file that was replaced or cut is read anew. It
// is rundir.ErrNotPlain where that is a link, and no error where there is none: then nothing is measured yet. What was read before
// an error stays.
func (h *History) Read(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.held.Store(int64(h.points)) }()
	f, err := rundir.OpenPlain(filepath.Join(h.dir, rundir.MetricsName))
	if errors.Is(err, os.ErrNotExist) {
		h.forget()
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !h.looked {
		h.looked = true
		h.load(ctx, f, st)
	} else if h.file == nil || !os.SameFile(h.file, st) || !h.goesOn(f, st) {
		h.forget()
	}
	h.file, h.size = st, st.Size()
	if st.Size() == h.at {
		return nil
	}
	if _, err := f.Seek(h.at, io.SeekStart); err != nil {
		return err
	}
	began := h.at
	read, damaged, err := rundir.ReadLines(ctx, f, func(at int64, line []byte, m rundir.Measured) error {
		h.take(began+at, line, m)
		h.held.Store(int64(h.points))
		return nil
	})
	h.at, h.damaged = began+read, h.damaged+damaged
	if lost := h.known.anchor(f, h.at); lost != nil {
		h.forget() // it was cut meanwhile
	}
	return err
}

// goesOn reports whether a file begins with what was read.
func (h *History) goesOn(f io.ReaderAt, st os.FileInfo) bool {
	return st.Size() >= h.at && h.known.in(f)
}

// forget is a history of which nothing is read.
func (h *History) forget() {
	if h.at > 0 {
		h.changed++
	}
	h.curves, h.points, h.epochs, h.clock, h.damaged = map[Name]*curve{}, 0, rundir.EpochLength{}, clock{}, 0
	h.file, h.size, h.at, h.known, h.indexed = nil, 0, 0, anchors{}, 0
}

// take adds the line at an offset.
func (h *History) take(at int64, line []byte, m rundir.Measured) {
	h.epochs.Take(m.Step, m.Epoch)
	if m.Boundary && !m.Time.IsZero() {
		h.known.boundary(at, line)
		var seconds float64
		for _, f := range m.Fields {
			if (f.Name == "train_s" || f.Name == "val_s") && !math.IsNaN(f.Value) {
				seconds += f.Value
			}
		}
		h.clock.take(float64(m.Step), m.Time, seconds)
	}
	for _, f := range m.Fields {
		n, y := Name{f.Name, m.Boundary}, f.Value
		if math.Abs(y) > largest {
			y = math.NaN()
		}
		if c := h.curves[n]; c != nil || !math.IsNaN(f.Value) {
			h.add(c, n, at, point{float64(m.Step), y})
		}
	}
}

// add adds a point of a line at an offset to a curve, which is made where it is nil.
func (h *History) add(c *curve, n Name, at int64, p point) {
	if c == nil {
		if h.fields(n.Boundary) == mostFields {
			return
		}
		c = &curve{}
		h.curves[n] = c
	}
	before := len(c.points)
	if before == cap(c.points) && before >= 1<<10 {
		c.grow(h.expected(before, at))
	}
	if c.add(p.step, p.y) {
		h.changed++
	}
	if h.points += len(c.points) - before; h.points > h.most {
		h.shrink()
	}
}

// expected is how many points a curve will have at the file's end that has so many at an offset. So a long file is read
// without curves that are copied again and again as they grow. A file of which most is nothing does not get more than four
// times as much memory as its points take.
func (h *History) expected(points int, at int64) int {
	all := float64(points) / float64(max(1, at)) * float64(h.size) * 1.01
	return int(min(max(all, 1.25*float64(points)), 4*float64(points)))
}

// fields counts the curves of steps or of boundaries.
func (h *History) fields(boundary bool) (n int) {
	for name := range h.curves {
		if name.Boundary == boundary {
			n++
		}
	}
	return n
}

// shrink halves the longest curve.
func (h *History) shrink() {
	var longest *curve
	for _, c := range h.curves {
		if longest == nil || len(c.points) > len(longest.points) {
			longest = c
		}
	}
	before := len(longest.points)
	longest.halve()
	h.points += len(longest.points) - before
	h.changed++
}

// Names are the curves, sorted by field, those of steps first.
func (h *History) Names() []Name {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]Name, 0, len(h.curves))
	for n := range h.curves {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b Name) int {
		if a.Boundary != b.Boundary {
			return map[bool]int{true: 1, false: -1}[a.Boundary]
		}
		return cmp.Compare(a.Field, b.Field)
	})
	return names
}

// Damaged is the number of lines that cannot be read.
func (h *History) Damaged() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.damaged
}

// Points is the number of points that are held, 16 bytes each. It does not wait for a read that is under way.
func (h *History) Points() int { return int(h.held.Load()) }

// Thin is a curve within a span of an axis, by at most two points for each of so many columns and one beside the span at
// either side: the least and the largest of each column. y is NaN where the metric is not defined. Both are nil where there
// is no such curve.
func (h *History) Thin(n Name, at Axis, s Span, columns int) (x, y []float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.curves[n]
	if c == nil {
		return nil, nil
	}
	return placed(thin(c.points, at, s, max(1, columns)), at)
}

// placed are points on an axis.
func placed(points []point, at Axis) (x, y []float64) {
	x, y = make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = at.of(p.step), p.y
	}
	return x, y
}

// Mark remembers how far somebody has seen a history.
type Mark struct {
	changed int
	axis    string // Axis.version
	steps   map[Name]float64
}

// News is what a curve has got.
type News struct {
	Name
	X, Y []float64
}

// Since gives the points behind a mark, of each curve that has any. Of more than most it gives the least and the largest of each
// of most/2 columns. whole is false where earlier points or places on the axis have changed, and for the zero Mark: then all is to
// be loaded anew. next is that all of it has been seen: both are of one instant, so no point that others read meanwhile is missed.
func (h *History) Since(m Mark, at Axis, most int) (news []News, next Mark, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next = Mark{h.changed, at.version, map[Name]float64{}}
	whole = m.changed == h.changed && m.axis == at.version
	for n, c := range h.curves {
		next.steps[n] = c.points[len(c.points)-1].step
		seen, known := m.steps[n]
		if whole = whole && known; !whole { // or a curve more
			continue
		}
		got := c.points[c.from(seen):]
		if len(got) > 0 && got[0].step == seen {
			got = got[1:]
		}
		if len(got) > most {
			got = thin(got, at, Span{}, max(1, most/2))
		}
		if len(got) > 0 {
			x, y := placed(got, at)
			news = append(news, News{n, x, y})
		}
	}
	if !whole {
		news = nil
	}
	return news, next, whole
}
