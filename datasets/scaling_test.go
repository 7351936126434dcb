package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestScaledTarget(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "a.csv", "a,y\n1,100\n2,200\n3,300\n"), Split: 1, KeepOrder: true,
		ScaleTarget: true, CSV: CSVOptions{Task: TaskRegression}}
	ds := open(t, s)
	got := slices.Clone(shape.View[float32](readAll(t, ds.Train, 0)[1]))
	if got[1] != 0 || got[2] != -got[0] {
		t.Errorf("targets %v", got)
	}
	ds.Info.TargetScaling.Undo(got)
	if !near(got, []float32{100, 200, 300}) {
		t.Errorf("scaled back: %v", got)
	}
	s.Like, s.Path = saved(t, ds.Info), write(t, "b.csv", "a,y\n9,300\n")
	if v := shape.View[float32](readAll(t, open(t, s).Train, 0)[1]); !near(v, []float32{1.2247449}) {
		t.Errorf("other data: %v", v)
	}
}

// Scaling is measured on the training part alone, and prediction reuses it.
func TestCSVStandardize(t *testing.T) {
	var text strings.Builder
	text.WriteString("a,const,b,k\n")
	for i := range 40 {
		fmt.Fprintf(&text, "%d,7.1,%d,%c\n", i, 1000+i*i, 'x'+rune(i%2))
	}
	s := Spec{Source: "csv", Path: write(t, "x.csv", text.String()), Seed: 5, Split: 0.75, CSV: CSVOptions{Standardize: true}}
	ds := open(t, s)
	train, val := shape.View[float32](readAll(t, ds.Train, 0)[0]), shape.View[float32](readAll(t, ds.Val, 0)[0])
	for j, wantStd := range []float64{1, 0, 1} {
		mean, std := moments(train, j, 3)
		if math.Abs(mean) > 1e-5 || math.Abs(std-wantStd) > 1e-5 {
			t.Errorf("training feature %d has mean %v and deviation %v", j, mean, std)
		}
	}
	if mean, _ := moments(val, 0, 3); math.Abs(mean) < 1e-4 {
		t.Error("the validation part took part in the fit")
	}

	var info Info // as it would come back from a checkpoint
	b, err := json.Marshal(ds.Info)
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{float32((3 - info.Scaling.Mean[0]) / info.Scaling.Std[0]), 0, float32((1009 - info.Scaling.Mean[2]) / info.Scaling.Std[2])}
	for name, text := range map[string]string{
		"as trained":   "a,const,b,k\n3,7.1,1009,x\n",
		"by name":      "b,extra,a,const\n1009,0,3,7.1\n",
		"no header":    "3,7.1,1009\n",
		"one too many": "3,7.1,1009,x\n",
	} {
		p, err := openOne(context.Background(), s, &info, write(t, "in.csv", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := shape.View[float32](readAll(t, p, 0)[0]); !near(got, want) || len(p.Fields()) != 1 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	_, err = OpenInputs(context.Background(), s, &info, write(t, "in.csv", "a,c,b\n1,2,3\n"))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `lacks the column "const"`) {
		t.Error(err)
	}
	s.CSV.Labels = []string{"k"}
	_, err = OpenInputs(context.Background(), s, &info, write(t, "in.csv", "3,7.1\n"))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "has 2 columns, but the model was trained on 3 features") {
		t.Error(err)
	}
}

func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-5 })
}

func moments(x []float32, j, width int) (mean, std float64) {
	n := float64(len(x) / width)
	for i := j; i < len(x); i += width {
		mean += float64(x[i]) / n
	}
	for i := j; i < len(x); i += width {
		std += (float64(x[i]) - mean) * (float64(x[i]) - mean) / n
	}
	return mean, math.Sqrt(std)
}
