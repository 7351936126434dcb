package crew

import (
	"errors"
	"io"
	"io/fs"
	"testing"
)

// TestDecide: what goes wrong in rank 0, which works for all, is told as in one process.
func TestDecide(t *testing.T) {
	for failing, want := range []string{"EOF", "rank 1 (node0): EOF"} {
		for i, err := range play(t, 2, member, func(c *Crew) error {
			if c.Rank() == failing {
				return c.Decide(t.Context(), "a folder", io.EOF)
			}
			return c.Decide(t.Context(), "a folder", nil)
		}) {
			if err == nil || err.Error() != want {
				t.Errorf("rank %d: %v, want %s", i, err, want)
			}
		}
	}
}

// TestAgree: what goes wrong anywhere is one message everywhere, and names the rank unless it is the same in all.
func TestAgree(t *testing.T) {
	facts := func(batch string) []Fact {
		return []Fact{{"seed", "1", "a remedy"}, {"train.batch", batch, "give all ranks the same config"}}
	}
	for _, x := range []struct {
		name  string
		err   func(rank int) error
		facts func(rank int) []Fact
		want  string
		rank  int
		kind  Kind
	}{
		{name: "all is well"},
		{name: "the same facts", facts: func(int) []Fact { return facts("2") }},
		{name: "one fails", err: func(i int) error { return map[int]error{2: io.EOF}[i] }, want: "rank 2 (node1): EOF", rank: 2, kind: Failed},
		{name: "a mistake of one", err: func(i int) error { return map[int]error{1: fs.ErrNotExist}[i] }, want: "rank 1 (node0): file does not exist", rank: 1, kind: Mistake},
		{name: "the same mistake of all", err: func(int) error { return fs.ErrNotExist }, want: "file does not exist", kind: Mistake},
		{name: "two fail", err: func(i int) error { return map[int]error{1: io.EOF, 2: fs.ErrNotExist}[i] }, want: "rank 1 (node0): EOF", rank: 1},
		{name: "other facts", facts: func(i int) []Fact { return facts(map[int]string{0: "2", 1: "2", 2: "4"}[i]) },
			want: "train.batch differs: it is 2 on rank 0 (node0), and 4 on rank 2 (node1): give all ranks the same config", rank: 2, kind: Mistake},
		{name: "a missing fact", facts: func(i int) []Fact { return facts("2")[:2-i/2] },
			want: "train.batch differs: it is 2 on rank 0 (node0), and not there on rank 2 (node1): give all ranks the same config", rank: 2, kind: Mistake},
		{name: "one more fact", facts: func(i int) []Fact { return facts("2")[:1+i/2] },
			want: "train.batch differs: it is not there on rank 0 (node0), and 2 on rank 2 (node1): give all ranks the same config", rank: 2, kind: Mistake},
	} {
		t.Run(x.name, func(t *testing.T) {
			options := func(i int) Options {
				o := member(i)
				o.KindOf = func(err error) Kind {
					if errors.Is(err, fs.ErrNotExist) {
						return Mistake
					}
					return Failed
				}
				return o
			}
			var own [3]error
			errs := play(t, 3, options, func(c *Crew) error {
				if x.err != nil {
					own[c.Rank()] = x.err(c.Rank())
				}
				var list []Fact
				if x.facts != nil {
					list = x.facts(c.Rank())
				}
				return c.Agree(t.Context(), "a test", own[c.Rank()], list...)
			})
			for i, err := range errs {
				v, ok := errors.AsType[*Verdict](err)
				switch {
				case x.want == "":
					if err != nil {
						t.Errorf("rank %d: %v", i, err)
					}
				case !ok || v.Text != x.want || v.Rank != x.rank || v.Kind != x.kind:
					t.Errorf("rank %d: %+v, want %q of rank %d", i, err, x.want, x.rank)
				case own[i] != nil && !errors.Is(err, own[i]):
					t.Errorf("rank %d: %v hides its own %v", i, err, own[i])
				}
			}
		})
	}
}
