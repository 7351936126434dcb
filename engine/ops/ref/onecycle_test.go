package ref_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
)

// The rates are those of PyTorch's OneCycleLR: see testdata/README.md.
func TestOneCycle(t *testing.T) {
	f, err := os.Open("testdata/one_cycle.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 100 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		var x [7]float64 // max_lr, total_steps, pct_start, div_factor, final_div_factor, step, rate
		for i := range x {
			if x[i], err = strconv.ParseFloat(row[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		o := ops.LearningRate{Schedule: "one_cycle", Base: x[0], Total: int(x[1]),
			Keys: ops.OneCycle{PctStart: x[2], DivFactor: x[3], FinalDivFactor: x[4]}}
		if got := compute(t, o, count(int32(x[5])))[0].F[0]; !close15(got, x[6]) {
			t.Errorf("%v: rate %v, want %v", row, got, x[6])
		}
		if int(x[5]) == o.Total-1 { // and stays
			if late := o.At(o.Total + 1000); !close15(late, x[6]) {
				t.Errorf("%v: rate %v after the end", row, late)
			}
		}
	}
	// The smallest runs: those of one step, and those whose top is the first.
	for _, c := range []struct {
		total int
		start float64
		want  []float64
	}{{1, 0.3, []float64{1. / 100}}, {1, 1, []float64{1}}, {2, 0.5, []float64{1, 1. / 100}}, {3, 0, []float64{1 + (0.01-1)*0.25, 1 + (0.01-1)*0.75, 0.01}}} {
		for step, want := range c.want {
			o := ops.LearningRate{Schedule: "one_cycle", Base: 1, Total: c.total, Keys: ops.OneCycle{PctStart: c.start, DivFactor: 10, FinalDivFactor: 10}}
			near(t, "one_cycle", compute(t, o, count(int32(step)))[0].F, []float64{want})
		}
	}
}

// close15 reports whether two positive numbers are the same to about 15 digits.
func close15(a, b float64) bool { return a-b <= 1e-14*b && b-a <= 1e-14*b }
