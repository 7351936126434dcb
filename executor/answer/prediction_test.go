package answer_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/executor/answer"
)

// JSON has no NaN: values that are not finite are null there, and NaN again once read.
func TestPredictionInJSON(t *testing.T) {
	class := 1
	p := answer.Prediction{Index: 3, Row: []answer.Named{{"z", `"7"`}, {"a", ""}}, Class: &class, Label: "b", Values: []float32{0.25, float32(math.NaN()), float32(math.Inf(-1))}}
	text, err := json.Marshal(p)
	if want := `{"index":3,"row":{"z":"\"7\"","a":""},"class":1,"label":"b","values":[0.25,null,null]}`; err != nil || string(text) != want {
		t.Fatalf("got %s, %v; want %s", text, err, want)
	}
	var back answer.Prediction
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if v := back.Values; back.Index != 3 || *back.Class != 1 || back.Label != "b" || !slices.Equal(back.Row, p.Row) || len(v) != 3 || v[0] != 0.25 || v[1] == v[1] || v[2] == v[2] {
		t.Fatalf("got %+v", back)
	}
}
