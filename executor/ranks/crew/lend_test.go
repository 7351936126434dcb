package crew

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// at is byte off of an item.
func at(item int, off int64) byte { return byte(int64(item)*31 + off*7 + off>>16) }

// TestLend: bytes of any length and place come as they are, from several ranks.
func TestLend(t *testing.T) {
	well(t, play(t, 3, member, func(c *Crew) error {
		if c.Rank() > 0 {
			return c.Lend(t.Context(), 0, func(item int, off int64, dst []byte) error {
				for i := range dst {
					dst[i] = at(item+c.Rank(), off+int64(i))
				}
				return nil
			})
		}
		for from := 1; from < c.Size(); from++ {
			b := c.Borrow(from)
			for item, n := range []int{0, 1, 100, chunk, 2*chunk + 3} {
				dst := make([]byte, n)
				if err := b.Read(t.Context(), item, 5, dst); err != nil {
					return err
				}
				for i, x := range dst {
					if want := at(item+from, 5+int64(i)); x != want {
						return fmt.Errorf("item %d of rank %d: byte %d is %d, want %d", item, from, i, x, want)
					}
				}
			}
			if err := errors.Join(b.End(t.Context()), b.End(t.Context())); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestLendFails: both sides have the reason.
func TestLendFails(t *testing.T) {
	errs := play(t, 2, member, func(c *Crew) error {
		if c.Rank() == 1 {
			return c.Lend(t.Context(), 0, func(int, int64, []byte) error { return io.ErrUnexpectedEOF })
		}
		b := c.Borrow(1)
		return errors.Join(b.Read(t.Context(), 0, 0, make([]byte, 8)), b.End(t.Context()))
	})
	if !errors.Is(errs[1], io.ErrUnexpectedEOF) || errs[0] == nil || !strings.Contains(errs[0].Error(), "rank 1 (node0): unexpected EOF") {
		t.Errorf("%v", errs)
	}
}
