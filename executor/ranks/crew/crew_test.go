package crew

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestMeet: ranks know of each other, and divide their machines.
func TestMeet(t *testing.T) {
	want := []Part{{2, 3, 50}, {2, 2, 50}, {1, 5, 100}}
	well(t, play(t, 3, member, func(c *Crew) error {
		if c.Machines() != 2 || c.Name(2) != "rank 2 (node1)" || c.Size() != 3 {
			return fmt.Errorf("%d machines, %s, %d ranks", c.Machines(), c.Name(2), c.Size())
		}
		if p := c.Part(); p != want[c.Rank()] {
			return fmt.Errorf("%+v, want %+v", p, want[c.Rank()])
		}
		return nil
	}))
}

// TestBound: ranks that the launcher has bound to cores keep them.
func TestBound(t *testing.T) {
	bound := func(i int) Options {
		o := member(i)
		o.Cores = fmt.Sprint(i)
		return o
	}
	well(t, play(t, 2, bound, func(c *Crew) error {
		if p := c.Part(); p.Threads != 5 || p.Free != 50 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	}))
}

// TestOtherProgram: all hear which rank runs another program.
func TestOtherProgram(t *testing.T) {
	errs := play(t, 3, func(i int) Options {
		o := member(i)
		if i == 2 {
			o.Program = "trainer 2"
		}
		return o
	}, func(*Crew) error { return nil })
	for i, err := range errs {
		v, ok := errors.AsType[*Verdict](err)
		if want := "the program differs: it is trainer 1 on rank 0 (node0), and trainer 2 on rank 2 (node1): start the same file on all machines"; !ok || v.Text != want || v.Kind != Mistake || v.Rank != 2 {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// TestGather: all get what each has, also nothing.
func TestGather(t *testing.T) {
	well(t, play(t, 4, member, func(c *Crew) error {
		all, err := c.Gather(t.Context(), "its letter", []byte(strings.Repeat("x", c.Rank())))
		if err != nil || len(all) != 4 || string(slices.Concat(all...)) != "xxxxxx" {
			return fmt.Errorf("%q, %w", all, err)
		}
		text, err := c.Share(t.Context(), "a word", []byte(fmt.Sprint("of rank ", c.Rank())))
		if err != nil || string(text) != "of rank 0" {
			return fmt.Errorf("%q, %w", text, err)
		}
		b := make([]byte, 2*chunk+3)
		if c.Rank() == 0 {
			b[0], b[chunk], b[len(b)-1] = 1, 2, 3
		}
		if err := c.ShareBytes(t.Context(), "bytes", b); err != nil || b[0] != 1 || b[chunk] != 2 || b[len(b)-1] != 3 {
			return fmt.Errorf("other bytes, %w", err)
		}
		return nil
	}))
}
