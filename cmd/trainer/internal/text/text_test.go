package text

import (
	"math"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2: "2 steps", 12345: "12345 steps"} {
		if got := Count(n, "step"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A long text loses its middle, and is UTF-8 still.
func TestShort(t *testing.T) {
	for s, want := range map[string]string{
		"12345678":             "12345678",
		"1234567890":           "123456 … (2 bytes) … 90",
		"12345\u00e9789\u00e9": "12345 … (5 bytes) … \u00e9",
	} {
		if got := Short(s, 8); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

// A metric is left out only if the line has it already.
func TestMetrics(t *testing.T) {
	rmse := 2.0
	values := map[string]float64{"auc": math.NaN(), "f1": 0.5, "rmse": rmse}
	for want, already := range map[string]map[string]*float64{
		", auc -, f1 0.5, rmse 2": {"rmse": nil},
		", auc -, f1 0.5":         {"rmse": &rmse},
	} {
		if got := Metrics(", ", []string{"auc", "f1", "rmse"}, values, already); got != want {
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
	for v, want := range map[float64]string{1.97634: "1.9763", 123.456: "123.5", 20860.4: "20,860", 0: "0.0000", 0.00001: "1e-05"} {
		if got := Loss(v); got != want {
			t.Errorf("loss %v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{339180: "339,200", 5296.4: "5,296", 52.96: "53", 5.296: "5.296", 0.25: "0.25"} {
		if got := Rate(v, "sample"); got != want+" samples/s" {
			t.Errorf("rate %v: %q, want %q", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		1540 * time.Microsecond: "1.54 ms", 21 * time.Microsecond: "0.021 ms", 451 * time.Microsecond: "0.451 ms", 23140 * time.Microsecond: "23.1 ms",
		476 * time.Millisecond: "476 ms", 9996 * time.Microsecond: "10.0 ms", 999600 * time.Microsecond: "1.00 s",
		1514 * time.Millisecond: "1.51 s", 15 * time.Second: "15.0 s",
		59960 * time.Millisecond: "1:00", time.Hour: "1:00:00",
	} {
		if got := Time(d); got != want {
			t.Errorf("time %v: %q, want %q", d, got, want)
		}
	}
}
