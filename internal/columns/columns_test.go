package columns

import (
	"math"
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
	if whole := Format([][]string{{strings.Repeat("a", 2*Width), "x"}}, Layout{Cut: []int{0}, Width: math.MaxInt}); strings.Contains(whole, "…") {
		t.Errorf("cut though all is asked for:\n%s", whole)
	}
	if !strings.Contains(table, "aaaa…bbbb") {
		t.Errorf("cut is not in the middle:\n%s", table)
	}
}

// A text that goes on in further lines loses no word, and columns are left out only where
// cutting does not make a table narrow enough.
func TestNarrow(t *testing.T) {
	rows := [][]string{{"NAME", "SIZE", "ABOUT"}, {strings.Repeat("n", 30), "12 MiB", "a text of several words that is rather long"}, {"b", "", "c"}}
	l := Layout{Cut: []int{2, 0}, Prose: []int{2}, Drop: []int{1}, Width: 60}
	want := `NAME                    SIZE    ABOUT
nnnnnnnnnn…nnnnnnnnnnn  12 MiB  a text of several words that
                                is rather long
b                               c
`
	if got := Format(rows, l); got != want {
		t.Errorf("60 columns:\n%swant\n%s", got, want)
	}
	l.Width = 46
	if got := Format(rows, l); strings.Contains(got, "SIZE") || !strings.Contains(got, "nnnnnnn…nnnnnnnn  a text of several words that\n") {
		t.Errorf("42 columns:\n%s", got)
	}
	l.Width = 26 // less than the least widths of both
	if got := Format(rows, l); !strings.Contains(got, "\nnnn…nnnn  a text of\n          several words\n") {
		t.Errorf("26 columns:\n%s", got)
	}
	l.Width = math.MaxInt
	if got := Format(rows, l); !strings.Contains(got, rows[1][0]+"  12 MiB  "+rows[1][2]+"\n") {
		t.Errorf("any width:\n%s", got)
	}
}

// Lines are broken between words alone, and only where they are too long.
func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"one two\n":                     "one two\n",
		"one two three\n":               "one two\nthree\n",
		"  one two three":               "  one two\n  three",
		"a  b  c\none two, three":       "a  b  c\none two,\nthree",
		"/a/path/of/many/letters is it": "/a/path/of/many/letters\nis it",
		"is /a/path/of/many/letters\n":  "is\n/a/path/of/many/letters\n",
		"größe größe größe\n":           "größe\ngröße\ngröße\n",
		"":                              "",
	} {
		if got := Fold(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
