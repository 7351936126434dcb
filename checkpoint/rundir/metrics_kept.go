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
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// longestLine is the length in bytes beyond which no line is one of a run.
const longestLine = 64 << 10

// kept are the lines of metrics.jsonl that a resumed run keeps.
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

// take counts a line, unless it is none or of a later step.
func (k *kept) take(line []byte, at Standing) bool {
	var l struct {
		Step int
		Loss *float64
	}
	switch {
	case json.Unmarshal(line, &l) == nil:
	case line == nil, bytes.HasSuffix(line, newline) && len(bytes.TrimSpace(line)) > 0:
		k.unreadable++
		return false
	default:
		k.torn = len(bytes.TrimSpace(line)) > 0
		return false
	}
	if l.Step > at.Step {
		return false
	}
	if l.Loss != nil {
		k.missing(l.Step, at)
		k.losses, k.logged = append(k.losses, *l.Loss), l.Step
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
