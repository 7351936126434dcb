package curves

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/filecache"
)

// An index is a history as it was after so many bytes of a metrics.jsonl: its curves in binary, and what it takes to know
// that file again. It is a file of [filecache.Curves] by the path of the run folder. Its contents are
//
//	n                 4 bytes, little-endian
//	indexHead         n bytes of JSON
//	numbers           8 bytes each, little-endian: of each curve all steps and then all values, and so of the clock
//
// filecache checks that they are whole. The version is in its magic number: another reading of lines needs another.

// indexHead is what an index has beside numbers.
type indexHead struct {
	Path    string             `json:"path"` // of metrics.jsonl
	At      int64              `json:"at"`   // bytes that were read
	Known   anchors            `json:"known"`
	Damaged int                `json:"damaged"`
	Epochs  rundir.EpochLength `json:"epochs"`
	Began   time.Time          `json:"began"` // of the clock
	Moments int                `json:"moments"`
	Changes int                `json:"changes"`
	Curves  []indexCurve       `json:"curves"`
}

type indexCurve struct {
	Name
	Points int `json:"points"`
}

const (
	leastIndexed  = 1 << 20 // bytes of a metrics.jsonl that is read in no time
	mostIndexHead = 1 << 20
)

// errIndex is about an index that is made anew.
var errIndex = errors.New("it is none of this program")

// Indexed has h use the indexes in a folder. It is called before the first Read.
func (h *History) Indexed(in filecache.Folder) *History {
	h.index = &in
	return h
}

// indexKey is the key of the index. It does not depend on what the run has measured: an index takes the place of an earlier one.
func (h *History) indexKey() filecache.Key {
	return sha256.Sum256([]byte("metrics of " + h.path()))
}

func (h *History) path() string {
	path := filepath.Join(h.dir, rundir.MetricsName)
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// load begins with the index, if that is of the first bytes of a file. An index that cannot be used counts as none.
func (h *History) load(ctx context.Context, f io.ReaderAt, st os.FileInfo) {
	if h.index == nil || st.Size() < leastIndexed {
		return
	}
	file, err := h.index.Get(ctx, h.indexKey())
	if err != nil {
		return
	}
	from := Open(h.dir)
	from.most = h.most
	err = file.Mapping.Guard(func() error { return from.decode(file.Bytes()) })
	if err != nil || !from.goesOn(f, st) {
		return
	}
	h.curves, h.points, h.epochs, h.clock, h.damaged = from.curves, from.points, from.epochs, from.clock, from.damaged
	h.at, h.known, h.indexed = from.at, from.known, from.at
}

// IndexDue reports whether so much was read since the index was written that it is to be written again: an eighth of all, so
// that writing takes a small part of the time that reading does.
func (h *History) IndexDue() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.index != nil && h.at-h.indexed >= max(leastIndexed, h.indexed/8)
}

// WriteIndex writes the index. Where that fails, as on a full disk, it is not due before as much was read again. A slow disk
// holds up nobody who reads h.
func (h *History) WriteIndex() error {
	text, numbers, err := h.lend()
	if err != nil {
		return err
	}
	return h.index.Put(h.indexKey(), func(w io.Writer) error { return encode(w, text, numbers) })
}

// lend gives the head of an index as JSON, and its numbers, which stay as they are.
func (h *History) lend() (text []byte, numbers [][]point, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.indexed = h.at
	head := indexHead{Path: h.path(), At: h.at, Known: h.known, Damaged: h.damaged, Epochs: h.epochs, Began: h.clock.began, Moments: len(h.clock.at), Changes: h.clock.changes}
	for n, c := range h.curves {
		c.lent = true
		head.Curves = append(head.Curves, indexCurve{n, len(c.points)})
		numbers = append(numbers, c.points)
	}
	moments := make([]point, len(h.clock.at))
	for i, m := range h.clock.at {
		moments[i] = point{m.step, m.seconds}
	}
	text, err = json.Marshal(head)
	return text, append(numbers, moments), err
}

// encode writes an index.
func encode(to io.Writer, head []byte, numbers [][]point) error {
	w := bufio.NewWriterSize(to, 64<<10)
	number := func(x float64) {
		_, _ = w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), math.Float64bits(x))) // Flush has the error
	}
	_, _ = w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(head))))
	_, _ = w.Write(head)
	for _, points := range numbers {
		for _, p := range points {
			number(p.step)
		}
		for _, p := range points {
			number(p.y)
		}
	}
	return w.Flush()
}

// decode reads an index into a history of which nothing is read.
func (h *History) decode(b []byte) error {
	if len(b) < 4 {
		return errIndex
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n > mostIndexHead || n > int64(len(b)) {
		return errIndex
	}
	var head indexHead
	if err := json.Unmarshal(b[:n], &head); err != nil {
		return err
	}
	b = b[n:]
	// pairs are the next points of all numbers, whose first parts grow.
	pairs := func(n int) (points []point, err error) {
		if n < 0 || n > len(b)/16 {
			return nil, errIndex
		}
		points = make([]point, n)
		for i := range points {
			points[i] = point{math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])), math.Float64frombits(binary.LittleEndian.Uint64(b[8*(n+i):]))}
			if i > 0 && !(points[i].step > points[i-1].step) {
				return nil, errIndex
			}
		}
		b = b[16*n:]
		return points, nil
	}
	if head.Path != h.path() || head.At < 0 || len(head.Curves) > 2*mostFields {
		return errIndex
	}
	for _, c := range head.Curves {
		points, err := pairs(c.Points)
		if err != nil || len(points) == 0 {
			return errIndex
		}
		h.curves[c.Name] = &curve{points: points}
		h.points += len(points)
	}
	moments, err := pairs(head.Moments)
	if err != nil || len(b) > 0 || h.points > h.most || len(moments) > mostMoments {
		return errIndex
	}
	for _, m := range moments {
		h.clock.at = append(h.clock.at, moment{m.step, m.y})
	}
	h.clock.began, h.clock.changes, h.epochs, h.damaged, h.at, h.known = head.Began, head.Changes, head.Epochs, head.Damaged, head.At, head.Known
	return nil
}

// anchors are parts of a file by which it is known again: its beginning, the last boundary that was read, and the end of what
// was read. A run that resumes from before a boundary writes that with another time.
type anchors struct {
	First, Boundary, Last anchor
}

type anchor struct {
	At   int64
	Text []byte
}

// anchorBytes is how much of a file an anchor has at most.
const anchorBytes = 1 << 10

// boundary notes the line of a boundary at an offset.
func (a *anchors) boundary(at int64, line []byte) {
	a.Boundary = anchor{at, append(a.Boundary.Text[:0], line[:min(len(line), anchorBytes)]...)}
}

// anchor notes the first and the last of so many bytes.
func (a *anchors) anchor(f io.ReaderAt, at int64) error {
	n := min(at, anchorBytes)
	a.First.Text, a.Last = slices.Grow(a.First.Text[:0], int(n))[:n], anchor{at - n, slices.Grow(a.Last.Text[:0], int(n))[:n]}
	_, err := f.ReadAt(a.First.Text, 0)
	if err == nil {
		_, err = f.ReadAt(a.Last.Text, at-n)
	}
	if err != nil {
		return fmt.Errorf("the file ends before byte %d: %w", at, err)
	}
	return nil
}

// in reports whether a file has the anchors.
func (a *anchors) in(f io.ReaderAt) bool {
	for _, x := range []anchor{a.Last, a.Boundary, a.First} {
		now := make([]byte, len(x.Text))
		if _, err := f.ReadAt(now, x.At); err != nil && len(now) > 0 || !bytes.Equal(now, x.Text) {
			return false
		}
	}
	return true
}
