package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestHelp(t *testing.T) {
	root := &cobra.Command{Use: "trainer"}
	ShowHelp(root)
	c := &cobra.Command{
		Use: "go RUN", Short: "Go on", Run: func(*cobra.Command, []string) {}, Example: "  trainer go runs/a",
		Long: "Go on with a run, which is long enough to be wrapped.\n\n  short   a line of a list that is wrapped below its text",
	}
	root.AddCommand(c, Retired("walk", "trainer go does that"))
	f := c.Flags()
	f.String("watch", "", "look every `TIME`, such as 2s")
	f.Lookup("watch").NoOptDefVal = "2s"
	f.String("a-name-that-has-its-own-line", "x", "a `WORD`")
	f.StringP("out", "o", "", "write to `FILE`")
	f.Int("secret", 7, "a number `N`")
	f.String("fault", "", "a `DRILL`, as cpu:1 launch 3 hang")
	Rare(c, "secret")
	want := `Go on with a run, which is long enough
to be wrapped.

  short   a line of a list that is
          wrapped below its text

Usage:
  trainer go RUN [flags]

Examples:
  trainer go runs/a

Flags:
  --a-name-that-has-its-own-line WORD
                  a WORD (default x)
  -o, --out FILE  write to FILE
  --watch[=TIME]  look every TIME, such
                  as 2s

2 more flags: trainer go --help --all
`
	if got := Help(c, 40, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = `Go on with a run, which is long enough to be wrapped.

  short   a line of a list that is wrapped below its text

Usage:
  trainer go RUN [flags]

Examples:
  trainer go runs/a

Flags:
  --a-name-that-has-its-own-line WORD
                  a WORD (default x)
  --fault DRILL   a DRILL, as cpu:1 launch 3 hang
  -o, --out FILE  write to FILE
  --secret N      a number N (default 7)
  --watch[=TIME]  look every TIME, such as 2s
`
	if got := Help(c, 80, true); got != want {
		t.Errorf("with all flags: got\n%s\nwant\n%s", got, want)
	}
}

// A long example is broken where a shell goes on: not in quotes, nor in a comment.
func TestExample(t *testing.T) {
	for line, want := range map[string]string{
		"  trainer go runs/a --epochs 3":                            "  trainer go runs/a --epochs 3\n",
		"  trainer go runs/a --epochs 3 --devices cpu:2":            "  trainer go runs/a --epochs 3 \\\n    --devices cpu:2\n",
		`  curl -d '{"inputs": [{"age": 41}]}' localhost`:           "  curl -d \\\n    '{\"inputs\": [{\"age\": 41}]}' \\\n    localhost\n",
		"  trainer copy runs/digits a.db # a folder for all others": "  trainer copy runs/digits a.db \\\n    # a folder for all others\n",
		"  trainer go 01234567890123456789012345678901234567890123": "  trainer go \\\n    01234567890123456789012345678901234567890123\n",
	} {
		p := page{width: 35}
		if p.example(line); p.b.String() != want {
			t.Errorf("%s: got\n%s\nwant\n%s", line, p.b.String(), want)
		}
	}
}
