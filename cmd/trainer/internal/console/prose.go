package console

import (
	"io"
	"math"
	"strings"

	"github.com/berth-ml/berth/internal/columns"
)

// Room is the most characters of a line that is printed to w, so that a terminal does
// not break it. A program that reads a pipe takes lines of any length.
func Room(w io.Writer) int {
	if Terminal(w) == nil {
		return math.MaxInt
	}
	return Width(w) - 1 // some terminals break a line that fills them
}

// Prose prints messages, notes and errors to a writer. On a terminal it breaks their
// lines between words; elsewhere each stays one line, which programs can find.
type Prose struct{ to io.Writer }

// NewProse prints to w.
func NewProse(w io.Writer) *Prose { return &Prose{w} }

// Write prints b, which ends a line, or asks a question. A line that is drawn over
// another, such as a bar, fits by itself.
func (p *Prose) Write(b []byte) (int, error) {
	room := Room(p.to)
	if room == math.MaxInt {
		return p.to.Write(b)
	}
	text := string(b)
	i := strings.LastIndexByte(text, '\r') + 1
	if strings.HasPrefix(text[i:], clearLine) {
		i += len(clearLine)
	}
	if i == 0 || strings.HasSuffix(text, "\n") {
		text = text[:i] + columns.Fold(text[i:], room)
	}
	if _, err := io.WriteString(p.to, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unwrap is the writer below.
func (p *Prose) unwrap() io.Writer { return p.to }
