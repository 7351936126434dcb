package datasets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// lines reads a text line by line.
type lines struct {
	rd   *bufio.Reader
	path string // for errors
	line int    // lines read
	long []byte // the line, if it is longer than rd's buffer
}

func newLines(r io.Reader, path string) lines {
	return lines{rd: bufio.NewReaderSize(r, 1<<16), path: path}
}

// mostRow is the number of bytes beyond which no row is one of a table. A row is
// held whole.
const mostRow = 32 << 20

// nextLine reads a line, valid until the next call, without its end. After the
// last line it gives io.EOF.
func (l *lines) nextLine() ([]byte, error) {
	line, err := l.rd.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			if len(l.long) > mostRow {
				return nil, fmt.Errorf("%w: %s:%d: the line has more than %d MiB: is it the right file?", ErrFormat, l.path, l.line+1, mostRow>>20)
			}
			line, err = l.rd.ReadSlice('\n')
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
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	l.line++
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// fileSize is the size of a text's contents, unpacked.
type fileSize struct{ bytes, lines int64 }

// measure reads a file for its size.
func measure(ctx context.Context, path string) (size fileSize, err error) {
	s, err := openStream(ctx, path)
	if err != nil {
		return size, err
	}
	buf := make([]byte, 1<<16)
	for err == nil {
		var n int
		n, err = s.Read(buf)
		size.bytes += int64(n)
		size.lines += int64(bytes.Count(buf[:n], []byte("\n")))
	}
	if err == io.EOF {
		err = nil
	} else {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return size, errors.Join(err, s.Close())
}
