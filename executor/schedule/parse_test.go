package schedule

import (
	"errors"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	const shared = "schedule x stages 2 microbatches 1 workers 1\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: "},
		{"schedule x stages 1 microbatches 1\n# caf\xe9\n0: 0F0 0B0 0U\n", "line 2: not a schedule: it is not UTF-8"},
		{"schedule x stages two microbatches 1\n", "stages"},
		{"schedule x stages 1 microbatches -1\n", "microbatches"},
		{"schedule x stages 1 microbatches 1 stages 2\n", "the first line is"},
		{"schedule x stages 70000 microbatches 1\n", "more than 65536"},
		{"schedule x stages 2 microbatches 1\n0: 0F0", "lines for 1 of 2 workers"},
		{"schedule x stages 1 microbatches 1\n1: 0F0", `line 2: not a schedule: the line of worker 0 is "1: 0F0"; begin it with "0:"`},
		{"schedule x stages 1 microbatches 1\n\n# first\n0: 0F0 0Z0", "line 4"},
		{"schedule x stages 1 microbatches 1\n0: 0F0\n1: 0F0\n", "line 3: not a schedule: more lines than the header's 1 workers: write one line for each worker"},
		{shared + "0: 0F0\n", `begin it with "0 (STAGE …):"`},
		{"# mine\n\nschedule x stages 2 microbatches 1\n0: 0F0", "line 3: not a schedule: it has lines for 1 of 2 workers"},
		{"# mine\n" + shared + "0 (0): 0F0\n", "line 2: not a schedule: no worker has stage 1"},
		{shared + "0 (0): 0F0\n", "no worker has stage 1"},
		{shared + "0 (0 0): 0F0\n", "stage 0 is listed for worker 0 and again"},
		{shared + "0 (0 2): 0F0\n", "there is no stage 2 among 2 stages"},
		{shared + "0 (0 1@1): 0F0\n", "there is no stage 1@1"},
		{shared + "0 (0 1@x): 0F0\n", "replica"},
		{shared + "0 (0 y): 0F0\n", `"y" is not a whole number`},
		{shared + "0 (0 1: 0F0\n", "does not end the list"},
		{strings.Repeat("x", 1e5), "line 1: not a schedule: the first line is"},
		{shared + strings.Repeat("x", 1e5), "line 2: "},
		{shared + "0 (0 1): " + strings.Repeat("9", 1e5) + "F0", "line 2: "},
		{shared + "0 (0 1): 0U" + strings.Repeat("9", 1e5), "line 2: "},
		{shared + "0 (0 1): 0F0@" + strings.Repeat("9", 1e5), "line 2: "},
		{shared + "0 (" + strings.Repeat("9", 1e5) + "): ", "line 2: "},
		{shared + "0 (0@" + strings.Repeat("9", 1e5) + "): ", "line 2: "},
	} {
		if _, err := Parse(c.text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 {
			t.Errorf("%.400q: %.1000v", c.text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(named("1f1b", 3, 4).String())
	f.Add(named("zb-h1", 3, 4).On(2).String())
	f.Add("schedule x stages 1 microbatches 999999999\n0: 5F1 0U 0B0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		_ = s.Validate()
		back, err := Parse(s.String())
		if err != nil || back.String() != s.String() {
			t.Fatalf("%q: %v", s.String(), err)
		}
	})
}
