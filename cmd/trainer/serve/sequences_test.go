package serve_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
)

func init() {
	custom.Register(custom.SourceType[struct{}]{Name: "test_series", Version: 1, Regression: true, Open: func(context.Context, struct{}) (*custom.Set, error) {
		return &custom.Set{
			Len: 24, Input: shape.F32(6, 2), Target: shape.F32(6, 1), Buckets: []int{3, 6},
			Length: func(i int) int { return 1 + i%6 },
			Fill: func(s custom.Sample, input, target *tensor.Dense) error {
				x, y := input.Float32s(), target.Float32s()
				for k := range y {
					x[2*k], x[2*k+1], y[k] = float32(k)/6, float32(s.Index)/24, float32(k+s.Index)/30
				}
				return nil
			},
		}, nil
	}})
}

// Series of numbers of any length are answered, each as if it were alone.
func TestSeriesOfAnyLength(t *testing.T) {
	_, c := open(t, trained(t, "", "data: {source: test_series}\nmodel: {layers: [{type: gru, units: 4}, {type: dense, units: 1}]}\ntrain: {epochs: 1, batch: 4}\n"), serve.OpenOptions{})
	var both, one predictions
	c.post(t, "/predict", `{"inputs": [[[0.1, 1]], [[0.1, 1], [0.5, 2], [1, -1], [0, 0], [2, 2]]]}`, &both)
	c.post(t, "/predict", `{"inputs": [[[0.1, 1]]]}`, &one)
	if p := both.Predictions; len(p) != 2 || len(p[0].Values) != 1 || len(p[1].Values) != 5 || !slices.Equal(p[0].Values, one.Predictions[0].Values) || p[0].Values[0] != p[1].Values[0] {
		t.Errorf("%+v, alone %+v", p, one.Predictions)
	}
	for body, want := range map[string]string{
		`{"inputs": [[]]}`:          "it has no positions: send a list of 1 to 6",
		`{"inputs": [[[1, 2, 3]]]}`: "the list is too long: send 2 elements",
		`{"inputs": ["ab"]}`:        "this is a text: send a list",
		`{"inputs": [[` + strings.Repeat("[1, 2], ", 6) + `[1, 2]]]}`: "it has 7 positions, and the model reads 1 to 6",
	} {
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", body); code != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %q", body, code, text, want)
		}
	}
	if _, text, _ := c.do(t.Context(), http.MethodGet, "/", ""); !strings.Contains(text, "a list of 1 to 6 positions, each a list of 2 numbers") {
		t.Errorf("GET /: %s", text)
	}
}
