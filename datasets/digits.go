package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/shape"
)

const (
	digitPixels = 64 // 8 by 8, row by row
	digitMax    = 16 // of a pixel
)

var digitField = Field{"input", shape.F32(1, 8, 8)}

// openDigits reads the handwritten digits inside the binary.
func openDigits(_ context.Context, s Spec) (*Dataset, error) {
	if s.Path != "" {
		return nil, fmt.Errorf("%w: digits are inside the binary and take no path: use source csv for %s", ErrSpec, s.Path)
	}
	raw, err := readBuiltin("digits.csv.gz")
	if err != nil {
		return nil, err
	}
	pixels, labels, err := parseDigits("digits.csv.gz", raw)
	if err != nil {
		return nil, err
	}
	if len(labels) != len(pixels)/digitPixels {
		return nil, fmt.Errorf("%w: digits.csv.gz lacks labels", ErrFormat)
	}
	t := imageTable(digitField, pixels, s.Images.scale(digitMax), labels)
	return imageDataset("digits", s, t, nil)
}

// digitsInputs reads digits from a file with 64 numbers from 0 to 16 on each
// line. It ignores a label after them.
func digitsInputs(ctx context.Context, s Spec, _ *Info, path string) (*table, error) {
	raw, err := readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	pixels, _, err := parseDigits(path, raw)
	if err != nil {
		return nil, err
	}
	return imageTable(digitField, pixels, s.Images.scale(digitMax), nil), nil
}

// parseDigits reads lines of 64 pixels and, on all lines or on none, a label.
func parseDigits(name string, raw []byte) (pixels []byte, labels []int32, err error) {
	for line, rest := 1, raw; len(rest) > 0; line++ {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		if text = bytes.TrimRight(text, "\r"); len(text) == 0 {
			continue
		}
		labelled := len(labels) > 0 || len(pixels) == 0
		var label int32
		if pixels, label, err = parseDigit(pixels, text); err != nil {
			return nil, nil, fmt.Errorf("%w: %s:%d:%w", ErrFormat, name, line, err)
		}
		if label >= 0 {
			labels = append(labels, label)
		}
		if first := len(pixels) == digitPixels; !first && labelled != (label >= 0) {
			return nil, nil, fmt.Errorf("%w: %s:%d: some lines have a label and some have none: give a label to all lines or to none", ErrFormat, name, line)
		}
	}
	if len(pixels) == 0 {
		return nil, nil, fmt.Errorf("%w: %s has no lines: put a sample on each", ErrTooFew, name)
	}
	return pixels, labels, nil
}

var errEndOfLine = errors.New("end of line")

// parseDigit appends the pixels of one line to dst. The label is -1 if the line
// has none. Errors begin with the column.
func parseDigit(dst, text []byte) ([]byte, int32, error) {
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
	return dst, int32(label), err
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
