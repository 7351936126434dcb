package rundir

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
}

// keepMetrics reads the lines of steps up to a step, and writes them to w unless
// it is nil. Lines that are not whole are dropped. It holds one line at a time:
// the file of a long run takes gigabytes.
func keepMetrics(ctx context.Context, path string, upTo int, w io.Writer) (kept, error) {
	k := kept{first: true, losses: []float64{}}
	f, err := osfile.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	defer f.Close()
	dropped := false
	return k, eachLine(ctx, f, func(line []byte) error {
		if !k.take(line, upTo) {
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
func (k *kept) take(line []byte, upTo int) bool {
	var l struct {
		Step int
		Loss *float64
	}
	if json.Unmarshal(line, &l) != nil || l.Step > upTo {
		return false
	}
	if l.Loss != nil {
		k.losses, k.logged = append(k.losses, *l.Loss), l.Step
	}
	return true
}
