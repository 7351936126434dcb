package units

import (
	"math"
	"testing"
)

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 68_915: "67.3 KiB", 1 << 20: "1.0 MiB", 5 << 29: "2.5 GiB", math.MaxInt64: "8.0 EiB", -1: "-1 B",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestTwoBytes(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		x, y string
	}{
		{1 << 20, 1 << 20, "1.0 MiB", "1.0 MiB"},
		{1 << 20, 2 << 20, "1.0 MiB", "2.0 MiB"},
		{1 << 20, 1<<20 + 1<<12, "1.000 MiB", "1.004 MiB"},
		{1 << 20, 1<<20 + 64, "1048576 B", "1048640 B"},
		{1 << 40, 1<<40 - 64, "1.0 TiB", "1024.0 GiB"},
		{1 << 50, 1<<50 + 1, "1125899906842624 B", "1125899906842625 B"},
	} {
		if x, y := TwoBytes(c.a, c.b); x != c.x || y != c.y {
			t.Errorf("%d and %d: %q and %q, want %q and %q", c.a, c.b, x, y, c.x, c.y)
		}
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{"1 device": Count(1, "device"), "0 batches": Count(0, "batch"), "2 stages": Count(2, "stage")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
