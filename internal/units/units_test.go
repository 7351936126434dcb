package units

import (
	"math"
	"testing"
	"time"
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
	for want, got := range map[string]string{"1 device": Count(1, "device"), "0 batches": Count(0, "batch"), "2 stages": Count(2, "stage"), "1,500 rows": Count(1500, "row")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Numbers, rates and times are as long as their size asks for.
func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		20860.4: "20,860", -20860.4: "-20,860", 999.96: "1,000", 999.94: "999.9", 12.345: "12.35", 0.5: "0.5", 1.5e-7: "1.5e-07",
		2e9: "2e+09", 1e8: "100,000,000", 0: "0", math.Inf(1): "+Inf",
	} {
		if got := Number(v); got != want {
			t.Errorf("number %v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{339180: "339,200", 5296.4: "5,296", 52.96: "53", 5.296: "5.296", 0.25: "0.25"} {
		if got := Rate(v); got != want {
			t.Errorf("rate %v: %q, want %q", v, got, want)
		}
	}
	for s, want := range map[float64]string{
		0: "0 µs", 73.4e-6: "73 µs", 0.0032: "3.2 ms", 0.00996: "10 ms", 0.12: "120 ms", 1.5: "1.5 s", 59.96: "1:00", 86400: "24:00:00", math.Inf(1): "1000:00:00",
	} {
		if got := Seconds(s); got != want {
			t.Errorf("%v seconds: %q, want %q", s, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		1540 * time.Microsecond: "1.54 ms", 21 * time.Microsecond: "21.0 µs", 451 * time.Microsecond: "451 µs", 450: "0.45 µs", 0: "0 s", 23140 * time.Microsecond: "23.1 ms",
		476 * time.Millisecond: "476 ms", 9996 * time.Microsecond: "10.0 ms", 999600: "1.00 ms", 999600 * time.Microsecond: "1.00 s",
		1514 * time.Millisecond: "1.51 s", 15 * time.Second: "15.0 s",
		59960 * time.Millisecond: "1:00", time.Hour: "1:00:00",
	} {
		if got := Time(d); got != want {
			t.Errorf("time %v: %q, want %q", d, got, want)
		}
	}
}

func TestList(t *testing.T) {
	for want, words := range map[string][]string{"": nil, "5": {"5"}, "5 and 2": {"5", "2"}, "5, 2 and 1": {"5", "2", "1"}} {
		if got := List(words); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
