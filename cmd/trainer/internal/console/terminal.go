package console

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal is the terminal that w prints to, nil where w prints elsewhere.
func Terminal(w io.Writer) *os.File {
	for {
		outer, ok := w.(interface{ unwrap() io.Writer })
		if !ok {
			break
		}
		w = outer.unwrap()
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Redraws reports whether w prints to a terminal on which a line can be drawn again.
func Redraws(w io.Writer) bool { return Terminal(w) != nil && os.Getenv("TERM") != "dumb" }

// Width is the number of columns of the terminal that w prints to, 80 where it
// is not known.
func Width(w io.Writer) int {
	if f := Terminal(w); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// clearLine clears a terminal's line behind the cursor.
const clearLine = "\x1b[K"

// ClearLine is the text that clears a terminal's line of a progress bar and the
// ^C behind it; "" where none is drawn.
func ClearLine(w io.Writer) string {
	if Redraws(w) {
		return "\r" + clearLine
	}
	return ""
}

// IsTerminal reports whether r reads from a terminal.
func IsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
