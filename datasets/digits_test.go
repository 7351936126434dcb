package datasets

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestDigits(t *testing.T) {
	ds := open(t, Spec{Source: "digits", Seed: 1})
	if ds.Train.Len() != 1437 || ds.Val.Len() != 360 {
		t.Errorf("%d and %d samples, want 1437 and 360", ds.Train.Len(), ds.Val.Len())
	}
	if got, want := countClasses(t, ds), []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}; !slices.Equal(got, want) {
		t.Errorf("samples of each class %v, want %v", got, want)
	}
	if in := ds.Info.Inputs[0].Meta; !in.Equal(shape.F32(1, 8, 8)) {
		t.Errorf("input %v", in)
	}
	pixels := shape.View[float32](readAll(t, ds.Train, 0)[0])
	if lo, hi := slices.Min(pixels), slices.Max(pixels); lo != 0 || hi != 1 {
		t.Errorf("pixels from %v to %v", lo, hi)
	}
}

func TestDigitsInputs(t *testing.T) {
	ds := open(t, Spec{Source: "digits"})
	line := strings.Repeat("8,", 63) + "16"
	for name, text := range map[string]string{"pixels": line + "\n" + line, "with label": line + ",3\r\n\r\n" + line + ",4\r\n"} {
		p, err := openOne(context.Background(), Spec{Source: "digits"}, &ds.Info, write(t, "in.csv", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := shape.View[float32](readAll(t, p, 0)[0]); p.Len() != 2 || got[0] != 0.5 || got[63] != 1 {
			t.Errorf("%s: %d samples, %v", name, p.Len(), got)
		}
	}
	for text, says := range map[string]string{
		"":                        "no lines",
		line + "\n1,2":            "in.csv:2:3: 2 fields",
		"17," + line:              "in.csv:1:1: number above 16",
		"x," + line:               "in.csv:1:1: 'x' is not a digit",
		line + ",3,4":             "more than 65 fields",
		line + ",":                "empty field",
		line + "\n" + line + ",1": "some lines",
		line + ",1\n" + line:      "some lines",
	} {
		_, err := OpenInputs(context.Background(), Spec{Source: "digits"}, &ds.Info, write(t, "in.csv", text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q…: %v, want %q", text, err, says)
		}
	}
}
