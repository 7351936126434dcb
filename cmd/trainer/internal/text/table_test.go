package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTable(t *testing.T) {
	got := Table([][]string{{"RUN", "STATE", "LOSS"}, {"runs/a", "running", "0.5"}, {"runs/größer", "new", ""}})
	want := "RUN          STATE    LOSS\nruns/a       running  0.5\nruns/größer  new\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	long := strings.Repeat("a", 80) + "\x1b[2J" + strings.Repeat("b", 80)
	table := Table([][]string{{"A", "B", "C"}, {long, "x", long}, {"short", "y", "z"}}, 2, 0)
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > Columns || strings.Contains(line, "\x1b") {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	if !strings.Contains(table, "aaaa…bbbb") {
		t.Errorf("cut is not in the middle:\n%s", table)
	}
}
