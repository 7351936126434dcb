package train_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// A run that is made shorter than its file says warms up for as much less. A file whose own
// warm-up is too long is refused at its line, as is one that was asked for.
func TestWarmupFits(t *testing.T) {
	const file = "data: {source: digits}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 40}\nschedule: {name: cosine, warmup: 200}\n" // 45 steps an epoch
	const tooLong = "data: {source: digits}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 4}\nschedule: {name: cosine, warmup: 200}\n"
	for _, x := range []struct {
		file string
		set  []string
		want int // steps; 0: it is refused
		says string
	}{
		{file, nil, 200, ""},
		{file, []string{"train.epochs=5"}, 200, ""},
		{file, []string{"train.epochs=4"}, 20, "schedule.warmup is 20 in place of 200, in proportion: the run takes 180 steps, and with the length in the file 1,800"},
		{file, []string{"train.steps=9"}, 1, "schedule.warmup is 1 in place of 200"},
		{file, []string{"train.batch=1437"}, 4, "schedule.warmup is 4 in place of 200"},
		{file, []string{"train.epochs=4", "schedule.warmup=190"}, 0, "--set schedule.warmup=190: "},
		{tooLong, nil, 0, "x.yaml:4: "},
		{tooLong, []string{"train.epochs=1"}, 0, "x.yaml:4: "},
	} {
		c, err := configs.Parse("x.yaml", []byte(x.file), configs.Overlay{Set: x.set})
		if err != nil {
			t.Fatal(err)
		}
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if x.want == 0 {
			if !errors.Is(err, berth.ErrOptions) || !strings.HasPrefix(err.Error(), x.says) {
				t.Errorf("%v: %v", x.set, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", x.set, err)
			continue
		}
		if got := r.Config.Schedule.Warmup; got != x.want || !strings.HasPrefix(strings.Join(r.Notes(), "; "), x.says) || c.Schedule.Warmup != 200 {
			t.Errorf("%v: %d steps, notes %q", x.set, got, r.Notes())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
