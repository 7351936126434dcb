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
		", auc -, f1 50.00%, rmse 2": {"rmse": nil},
		", auc -, f1 50.00%":         {"rmse": &rmse},
	} {
		if got := Metrics(", ", []string{"auc", "f1", "rmse"}, values, already); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Shares are percentages under each name of theirs, and other metrics are numbers.
func TestMetric(t *testing.T) {
	for name, want := range map[string]string{
		"accuracy": "96.39%", "val_accuracy": "96.39%", "train_accuracy": "96.39%", "test_f1": "96.39%", "val_precision_micro": "96.39%",
		"recall_positive": "96.39%", "f1_class_12": "96.39%", "top_5": "96.39%",
		"val_loss": "0.9639", "val_auc": "0.9639", "average_precision": "0.9639", "val_r2": "0.9639", "val_mine": "0.9639",
	} {
		if got := Metric(name, 0.96388); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
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
