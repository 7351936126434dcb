package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/shape"
)

const (
	digitPixels = 64 // 8 by 8, row by row
	digitMax    = 16 // of a pixel
)

var digitField = Field{"input", shape.F32(1, 8, 8)}

// openDigits reads the handwritten digits inside the binary.
func openDigits(ctx context.Context, s Spec) (*Dataset, error) {
	if s.Path != "" {
		return nil, fmt.Errorf("%w: digits are inside the binary and take no path: use source csv for %s", ErrSpec, s.Path)
	}
	x := builtinDigits()
	if x.err != nil {
		return nil, x.err
	}
	t := imageTable(digitField, x.pixels, s.Images.scale(digitMax), x.labels)
	return imageDataset(ctx, "digits", s, t, nil)
}

// labelledDigits are pixels and labels that nobody changes, or why there are none.
type labelledDigits struct {
	pixels, labels []byte
	err            error
}

// builtinDigits are the digits inside the binary. They are small, so a process parses
// them once.
var builtinDigits = sync.OnceValue(func() (x labelledDigits) {
	const name = "digits.csv.gz"
	in, err := openBuiltin(context.Background(), name)
	if err != nil {
		return labelledDigits{err: err}
	}
	x.pixels, x.labels, x.err = parseDigits(files.NewLines(in, name), 0)
	if x.err == nil && len(x.labels) != len(x.pixels)/digitPixels {
		x.err = fmt.Errorf("%w: %s lacks labels", ErrFormat, name)
	}
	return x
})

// digitsInputs reads digits from a file with 64 numbers from 0 to 16 on each
// line. It ignores a label after them.
func digitsInputs(ctx context.Context, s Spec, _ *Info, path string) (_ *table, err error) {
	size, err := files.Measure(ctx, path)
	if err != nil {
		return nil, err
	}
	// Each number takes two bytes of the file or more: a digit and a delimiter.
	most := min(size.Lines+1, (size.Bytes+1)/(2*digitPixels))
	if err := fits(path, most*(digitPixels+1), s.Memory); err != nil {
		return nil, err
	}
	in, err := files.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	pixels, _, err := parseDigits(files.NewLines(in, path), int(most))
	if err != nil {
		return nil, err
	}
	return imageTable(digitField, pixels, s.Images.scale(digitMax), nil), nil
}

// parseDigits reads lines of 64 pixels and, on all lines or on none, a label. It
// reserves memory for most digits.
func parseDigits(in files.Lines, most int) (pixels, labels []byte, err error) {
	pixels = make([]byte, 0, most*digitPixels)
	for {
		text, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if text = bytes.TrimRight(text, "\r"); len(text) == 0 {
			continue
		}
		labelled := len(labels) > 0 || len(pixels) == 0
		var label int
		if pixels, label, err = parseDigit(pixels, text); err != nil {
			return nil, nil, fmt.Errorf("%w: %s:%d:%w", ErrFormat, in.Path, in.Line, err)
		}
		if label >= 0 {
			labels = append(labels, byte(label))
		}
		if first := len(pixels) == digitPixels; !first && labelled != (label >= 0) {
			return nil, nil, fmt.Errorf("%w: %s:%d: some lines have a label and some have none: give a label to all lines or to none", ErrFormat, in.Path, in.Line)
		}
	}
	if len(pixels) == 0 {
		return nil, nil, fmt.Errorf("%w: %s has no lines: put a sample on each", ErrTooFew, in.Path)
	}
	return pixels, labels, nil
}

var errEndOfLine = errors.New("end of line")

// parseDigit appends the pixels of one line to dst. The label is -1 if the line
// has none. Errors begin with the column.
func parseDigit(dst, text []byte) ([]byte, int, error) {
	l := numberLine{text: text}
	for i := range digitPixels {
		v, err := l.next(digitMax)
		if err == errEndOfLine {
			return nil, 0, fmt.Errorf("%d: %d fields, %d pixels expected", len(text), i, digitPixels)
		}
		if err != nil {
			return nil, 0, err
		}
		dst = append(dst, byte(v))
	}
	label, err := l.next(9)
	if err == errEndOfLine {
		return dst, -1, nil
	}
	if err == nil && l.at <= len(text) {
		err = fmt.Errorf("%d: more than %d fields", l.at, digitPixels+1)
	}
	return dst, label, err
}

// numberLine reads whole numbers with commas between them.
type numberLine struct {
	text []byte
	at   int // of the next number; past the end of text after the last
}

// next reads a number of at most limit.
func (l *numberLine) next(limit int) (int, error) {
	if l.at > len(l.text) {
		return 0, errEndOfLine
	}
	start, v := l.at, 0
	for ; l.at < len(l.text) && l.text[l.at] != ','; l.at++ {
		c := l.text[l.at]
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%d: %q is not a digit", l.at+1, c)
		}
		if v = v*10 + int(c-'0'); v > limit {
			return 0, fmt.Errorf("%d: number above %d", start+1, limit)
		}
	}
	if l.at == start {
		return 0, fmt.Errorf("%d: empty field", start+1)
	}
	l.at++
	return v, nil
}
