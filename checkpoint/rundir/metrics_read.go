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
	"strings"
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
// take does not see; the last line may still be written, and is not among them.
func ReadMetrics(ctx context.Context, dir string, take func(Record) error) (damaged int, err error) {
	f, err := osfile.Open(filepath.Join(dir, MetricsName), os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	err = eachLine(ctx, f, func(line []byte) error {
		r, ok := parseRecord(line)
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
// without an end is still being written, and is left to that call. damaged counts lines that take does not see.
func ReadLines(ctx context.Context, r io.Reader, take func(Record) error) (read int64, damaged int, err error) {
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
		record, ok := parseRecord(line)
		if ok = ok && long == 0; ok {
			if err := take(record); err != nil {
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
	least, most float64
	bounded     bool // from above
}

// Take sees a line.
func (l *EpochLength) Take(r Record) {
	step, epoch := float64(r.Step), float64(r.Epoch)
	l.least = max(l.least, math.Ceil(step/(epoch+1)))
	if epoch > 0 {
		most := math.Floor((step - 1) / epoch)
		if !l.bounded || most < l.most {
			l.most, l.bounded = most, true
		}
	}
}

// Steps is the length; 0 where it is not known.
func (l *EpochLength) Steps() float64 {
	if !l.bounded {
		return 0
	}
	return max(1, min(l.least, l.most))
}

// LastBoundary is the newest boundary of a run folder's metrics.jsonl, of which it
// reads the end alone; ok is false where that has none.
func LastBoundary(dir string) (r Record, ok bool) {
	const end = 16 * longestLine
	f, err := osfile.Open(filepath.Join(dir, MetricsName), os.O_RDONLY)
	if err != nil {
		return r, false
	}
	defer f.Close()
	if _, err := f.Seek(-end, io.SeekEnd); err != nil { // the file is shorter
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return r, false
		}
	}
	_ = eachLine(context.Background(), f, func(line []byte) error {
		if next, whole := parseRecord(line); whole && next.Boundary {
			next.Text = bytes.Clone(next.Text)
			r, ok = next, true
		}
		return nil
	})
	return r, ok
}

// parseRecord reads a line; ok is false if a run has not written it.
func parseRecord(line []byte) (r Record, ok bool) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return r, false
	}
	step, isStep := fields["step"].(float64)
	epoch, isEpoch := fields["epoch"].(float64)
	if !isStep || !isEpoch || step < 0 || step > maxStep || epoch < 0 || epoch > maxStep {
		return r, false
	}
	_, ofStep := fields["loss"]
	r = Record{Step: int(step), Epoch: int(epoch), Boundary: !ofStep, Values: map[string]float64{}, Text: line}
	if text, ok := fields["time"].(string); ok {
		r.Time, _ = time.Parse(time.RFC3339, text)
	}
	for name, v := range fields {
		if x, number := v.(float64); number && name != "step" && name != "epoch" {
			r.Values[strings.ToValidUTF8(name, "?")] = x
		}
	}
	return r, true
}

// maxStep is a number of steps beyond that of any run.
const maxStep = 1 << 53

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
