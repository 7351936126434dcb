package rundir

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// Record is a line of a run's metrics.jsonl, read back.
type Record struct {
	Step, Epoch int
	Boundary    bool               // of a boundary, not of a step
	Time        time.Time          // of a boundary; zero: it has none
	Values      map[string]float64 // the other numbers, by the names of their fields
	Text        []byte             // the line; valid until the call ends that is given the record
}

// ReadMetrics gives each line of a run folder's metrics.jsonl to take, in order. A
// run may train meanwhile. It returns the number of lines that are damaged, which
// take does not see; the last line may still be written, and is not among them. The error is ErrNotPlain for a link
// or a pipe in the file's place.
func ReadMetrics(ctx context.Context, dir string, take func(Record) error) (damaged int, err error) {
	f, err := OpenPlain(filepath.Join(dir, MetricsName))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var read lines
	err = eachLine(ctx, f, func(line []byte) error {
		r, ok := read.record(line)
		switch {
		case ok:
			return take(r)
		case len(bytes.TrimSpace(line)) > 0 && bytes.HasSuffix(line, newline) || line == nil:
			damaged++
		}
		return nil
	})
	return damaged, err
}

// ReadLines gives each whole line of r, a metrics.jsonl from the beginning of one of its lines on, to take, in order. read
// is the number of bytes of the lines that were taken or are damaged: the next call begins behind them. A last line
// without an end is still being written, and is left to that call. take gets the offset of a line as read counts, and its
// bytes, which are valid until it returns. damaged counts lines that take does not see.
func ReadLines(ctx context.Context, r io.Reader, take func(at int64, line []byte, m Measured) error) (read int64, damaged int, err error) {
	var known lines
	b := bufio.NewReaderSize(r, longestLine)
	for long := int64(0); ctx.Err() == nil; {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long += int64(len(line))
			continue
		case err == io.EOF:
			return read, damaged, nil
		case err != nil:
			return read, damaged, err
		}
		m, ok := known.parse(line)
		if ok = ok && long == 0; ok {
			if err := take(read, line, m); err != nil {
				return read, damaged, err
			}
		}
		if !ok && (long > 0 || len(bytes.TrimSpace(line)) > 0) {
			damaged++
		}
		read += long + int64(len(line))
		long = 0
	}
	return read, damaged, context.Cause(ctx)
}

// Undefined are the fields of a line that are null.
func (r Record) Undefined() (names []string) {
	var fields map[string]json.RawMessage
	if !bytes.Contains(r.Text, []byte("null")) || json.Unmarshal(r.Text, &fields) != nil {
		return nil
	}
	for name, v := range fields {
		if string(v) == "null" {
			names = append(names, name)
		}
	}
	return names
}

// EpochLength finds the steps of an epoch from lines: step s of epoch e, both as lines have them, bounds it
// from both sides. The zero value has seen none.
type EpochLength struct {
	Least, Most float64
	Bounded     bool // from above
}

// Take sees a line of a step and an epoch.
func (l *EpochLength) Take(ofStep, ofEpoch int) {
	step, epoch := float64(ofStep), float64(ofEpoch)
	l.Least = max(l.Least, math.Ceil(step/(epoch+1)))
	if epoch > 0 {
		most := math.Floor((step - 1) / epoch)
		if !l.Bounded || most < l.Most {
			l.Most, l.Bounded = most, true
		}
	}
}

// Steps is the length; 0 where it is not known.
func (l *EpochLength) Steps() float64 {
	if !l.Bounded {
		return 0
	}
	return max(1, min(l.Least, l.Most))
}

// LastBoundary is the newest boundary of a run folder's metrics.jsonl, of which it
// reads the end alone; ok is false where that has none.
func LastBoundary(dir string) (r Record, ok bool) {
	f, err := OpenPlain(filepath.Join(dir, MetricsName))
	if err != nil {
		return r, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return r, false
	}
	// Most files end with a boundary. Of the others more is read.
	for _, most := range []int64{4 << 10, 64 << 10, 16 * longestLine} {
		from := max(0, st.Size()-most)
		text := make([]byte, st.Size()-from)
		n, err := f.ReadAt(text, from)
		if err != nil && err != io.EOF { // it may be cut meanwhile
			return r, false
		}
		if r, ok := lastBoundary(text[:n], from == 0 || most == 16*longestLine); ok || from == 0 {
			return r, ok
		}
	}
	return r, false
}

// lastBoundary is the last boundary of a text. whole says that the text begins with a line.
func lastBoundary(text []byte, whole bool) (r Record, ok bool) {
	var read lines
	for end := len(text); end > 0; {
		begin := bytes.LastIndexByte(text[:end-1], '\n') + 1
		line := text[begin:end]
		end = begin
		tooLong := len(line) > longestLine || len(line) == longestLine && !bytes.HasSuffix(line, newline)
		if begin == 0 && !whole || tooLong || bytes.Contains(line, []byte(`"loss":`)) { // a step's line, as all but few are
			continue
		}
		if r, ok := read.record(line); ok && r.Boundary {
			r.Text = bytes.Clone(r.Text)
			return r, true
		}
	}
	return r, false
}

// eachLine gives each line of a file to take, with its end if it has one; nil for a
// line that is too long. The line is valid until take returns.
func eachLine(ctx context.Context, f io.Reader, take func(line []byte) error) (err error) {
	r := bufio.NewReaderSize(f, longestLine)
	for tooLong := false; err != io.EOF; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var line []byte
		line, err = r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			continue
		}
		if err != nil && err != io.EOF {
			return err
		}
		if tooLong {
			line, tooLong = nil, false
		} else if len(line) == 0 {
			continue // the end
		}
		if err := take(line); err != nil {
			return err
		}
	}
	return nil
}

var newline = []byte("\n")

// longestLine is the length in bytes beyond which no line is one of a run.
const longestLine = 64 << 10

// kept are the lines of metrics.jsonl that a resumed run keeps. openMetrics makes it before it changes
// the file.
type kept struct {
	size   int64     // in bytes
	first  bool      // they are the file's first bytes as they stand
	losses []float64 // never nil
	logged int       // the last step whose loss is among them

	unreadable int  // dropped lines that no run wrote so
	torn       bool // the last line is not whole, as one that was being written
	lacks      Lost // lines of steps that are not there and will not be written again
}

// keepMetrics reads the lines of steps up to where a run stands, and writes them to w unless
// it is nil. Lines that are not whole are dropped. It holds one line at a time:
// the file of a long run takes gigabytes.
func keepMetrics(ctx context.Context, path string, at Standing, w io.Writer) (kept, error) {
	k := kept{first: true, losses: []float64{}}
	f, err := osfile.Open(path, os.O_RDONLY)
	switch {
	case err == nil:
		err = errors.Join(k.read(ctx, f, at, w), f.Close())
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	k.missing(at.Again+1, at)
	if k.unreadable == 0 && len(k.losses) >= at.Lines {
		k.lacks = Lost{} // lines that are not there were never written
	}
	return k, err
}

// read reads the lines of a file.
func (k *kept) read(ctx context.Context, f io.Reader, at Standing, w io.Writer) error {
	dropped := false
	return eachLine(ctx, f, func(line []byte) error {
		if !k.take(line, at) {
			dropped = true
			return nil
		}
		if !bytes.HasSuffix(line, newline) {
			line, dropped = append(bytes.Clone(line), '\n'), true
		}
		k.first = k.first && !dropped
		k.size += int64(len(line))
		if w == nil {
			return nil
		}
		_, err := w.Write(line)
		return err
	})
}

// take counts a line, unless it is none or of a later step.
func (k *kept) take(line []byte, at Standing) bool {
	var l struct {
		Step, Epoch *int // every line of a run has both
		Loss        *float64
	}
	switch {
	case json.Unmarshal(line, &l) == nil && l.Step != nil && l.Epoch != nil:
	case line == nil, json.Valid(line), bytes.HasSuffix(line, newline) && len(bytes.TrimSpace(line)) > 0:
		k.unreadable++
		return false
	default:
		k.torn = len(bytes.TrimSpace(line)) > 0
		return false
	}
	if *l.Step > at.Step {
		return false
	}
	if l.Loss != nil {
		k.missing(*l.Step, at)
		k.losses, k.logged = append(k.losses, *l.Loss), *l.Step
	}
	return true
}

// missing notes that there are no lines of the steps between the newest one and next.
func (k *kept) missing(next int, at Standing) {
	first := k.logged - k.logged%at.Every + at.Every
	if n := (next - 1 - first + at.Every) / at.Every; n > 0 && first < next {
		if k.lacks.Lines == 0 {
			k.lacks.FirstStep = first
		}
		k.lacks.Lines += n
		k.lacks.LastStep = first + (n-1)*at.Every
	}
}

// damage says what of the file is lost, and where it is as it was; "" where nothing is.
func (k *kept) damage(aside string) string {
	text := ""
	switch x := k.lacks; {
	case x.Lines == 1:
		text = fmt.Sprintf("%s was damaged: it lacks the line of step %d", MetricsName, x.FirstStep)
	case x.Lines > 0:
		text = fmt.Sprintf("%s was damaged: it lacks lines of steps %d to %d", MetricsName, x.FirstStep, x.LastStep)
	case k.unreadable > 0:
		text = fmt.Sprintf("%s was damaged: %d of its lines cannot be read, none of a step, and are left out", MetricsName, k.unreadable)
	}
	if aside != "" {
		text += fmt.Sprintf("; the file as it was is %s", aside)
	}
	return text
}
