package columns

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFormat(t *testing.T) {
	got := Format([][]string{{"RUN", "STATE", "LOSS"}, {"runs/a", "running", "0.5"}, {"runs/größer", "new", ""}}, Layout{Right: []int{2}})
	want := "RUN          STATE    LOSS\nruns/a       running   0.5\nruns/größer  new\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	long := strings.Repeat("a", 80) + "\x1b[2J" + strings.Repeat("b", 80)
	table := Format([][]string{{"A", "B", "C"}, {long, "x", long}, {"short", "y", "z"}}, Layout{Cut: []int{2, 0}})
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > Width || strings.Contains(line, "\x1b") {
			t.Errorf("%d characters: %q", n, line)
		}
	}
	if narrow := Format([][]string{{strings.Repeat("a", 60), strings.Repeat("b", 60)}}, Layout{Cut: []int{0}, Width: 80}); utf8.RuneCountInString(narrow) != 81 {
		t.Errorf("in 80 columns:\n%s", narrow)
	}
	if whole := Format([][]string{{strings.Repeat("a", 2*Width), "x"}}, Layout{Cut: []int{0}, Whole: true}); strings.Contains(whole, "…") {
		t.Errorf("cut though all is asked for:\n%s", whole)
	}
	if !strings.Contains(table, "aaaa…bbbb") {
		t.Errorf("cut is not in the middle:\n%s", table)
	}
}
