package text

import (
	"math"
	"testing"
)

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

// A loss has four decimals where they suit it.
func TestLoss(t *testing.T) {
	for v, want := range map[float64]string{1.97634: "1.9763", 123.456: "123.5", 20860.4: "20,860", 0: "0.0000", 0.00001: "1e-05"} {
		if got := Loss(v); got != want {
			t.Errorf("loss %v: %q, want %q", v, got, want)
		}
	}
}
