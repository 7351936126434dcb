package runs

import (
	"testing"

	"github.com/berth-ml/berth"
)

func TestUsedText(t *testing.T) {
	for _, c := range []struct {
		used         berth.Used
		chosen, last bool
		want         string
	}{
		{berth.Used{ID: 3, Step: 90, Best: true, BestID: 3, NewestID: 3}, false, false, "using checkpoint 3 of step 90, the best"},
		{berth.Used{ID: 3, Step: 90, Best: true, BestID: 3, NewestID: 3}, true, false, "using checkpoint 3 of step 90, the best"},
		{berth.Used{ID: 3, Step: 90, Best: true, BestID: 3, NewestID: 3}, true, true, "using checkpoint 3 of step 90, the newest and the best"},
		{berth.Used{ID: 3, Step: 90, Best: true, BestID: 3, NewestID: 5}, false, false, "using checkpoint 3 of step 90, the best; the newest is checkpoint 5: --last uses it"},
		{berth.Used{ID: 3, Step: 90, Best: true, BestID: 3, NewestID: 5}, true, false, "using checkpoint 3 of step 90, the best"},
		{berth.Used{ID: 3, Step: 90, BestID: 2, NewestID: 3}, true, true, "using checkpoint 3 of step 90, the newest"},
		{berth.Used{ID: 3, Step: 90, BestID: 2, NewestID: 5}, true, false, "using checkpoint 3 of step 90"},
		{berth.Used{ID: 3, Step: 90, NewestID: 3}, false, false, "using checkpoint 3 of step 90, the newest"},
		{berth.Used{File: "w.safetensors"}, false, false, "using the weights of w.safetensors"},
	} {
		if got := usedText(c.used, c.chosen, c.last); got != c.want {
			t.Errorf("%+v: %q, want %q", c.used, got, c.want)
		}
	}
}
