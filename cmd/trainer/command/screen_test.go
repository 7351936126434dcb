package command

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// escapes are those that clear a line of a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// TestScreenFits: what a training prints on a terminal of 80 columns fits its lines, and
// shows the step from the first one on. A terminal that cannot draw a line again gets
// lines alone.
func TestScreenFits(t *testing.T) {
	if terminalText == nil {
		t.Skip("no terminal can be opened here")
	}
	for term, drawn := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", term)
		text := terminalText(t, "train", "digits", "--run", t.TempDir(), "--max-steps", "100", "--verbose")
		if bar := regexp.MustCompile(`\repoch +1/40  step +1/100  loss at the epoch's end  lr .*%`); bar.MatchString(text) != drawn || strings.Contains(text, "\x1b") != drawn {
			t.Errorf("%s: %q", term, text)
		}
		if !strings.Contains(text, "next: trainer resume ") {
			t.Errorf("%s: no next command in %q", term, text)
		}
		for _, line := range strings.FieldsFunc(escapes.ReplaceAllString(text, ""), func(c rune) bool { return c == '\r' || c == '\n' }) {
			if utf8.RuneCountInString(line) > 79 && !strings.Contains(line, "/Test") { // the folder's name is a test's
				t.Errorf("%s: %d columns: %q", term, utf8.RuneCountInString(line), line)
			}
		}
	}
}
