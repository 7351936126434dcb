package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berth-ml/berth/datasets/fault"
)

// Lines reads a text line by line.
type Lines struct {
	Reader *bufio.Reader
	Path   string // for errors
	Line   int    // lines read
	long   []byte // the line, if it is longer than Reader's buffer
}

// NewLines begins to read r, whose path is for errors.
func NewLines(r io.Reader, path string) Lines {
	return Lines{Reader: bufio.NewReaderSize(r, 1<<16), Path: path}
}

// MostRow is the number of bytes beyond which no row is one of a table. A row is
// held whole.
const MostRow = 32 << 20

// Next reads a line, valid until the next call, without its end. After the
// last line it gives io.EOF.
func (l *Lines) Next() ([]byte, error) {
	line, err := l.Reader.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			if len(l.long) > MostRow {
				return nil, fmt.Errorf("%w: %s:%d: the line has more than %d MiB: is it the right file?", fault.ErrFormat, l.Path, l.Line+1, MostRow>>20)
			}
			line, err = l.Reader.ReadSlice('\n')
			l.long = append(l.long, line...)
		}
		line = l.long
	}
	if err == io.EOF && len(line) > 0 {
		err = nil // the last line has no end
	}
	if err == io.EOF {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Path, err)
	}
	l.Line++
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// Size is the size of a text's contents, unpacked.
type Size struct{ Bytes, Lines int64 }

// Measure reads a file for its size.
func Measure(ctx context.Context, path string) (size Size, err error) {
	s, err := Open(ctx, path)
	if err != nil {
		return size, err
	}
	buf := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = s.Read(buf)
		size.Bytes += int64(n)
		size.Lines += int64(bytes.Count(buf[:n], []byte("\n")))
	}
	if err == io.EOF {
		err = nil
	} else {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return size, errors.Join(err, s.Close())
}
