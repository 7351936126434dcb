package train_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// A run that is made shorter than its file says warms up for as much less, and one whose file
// has a warm-up of its whole length for a tenth of it. A warm-up that was asked for is
// refused, and a schedule without an end has any.
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
		{tooLong, nil, 18, "schedule.warmup is 18 in place of 200, a tenth of the run, which takes 180 steps"},
		{tooLong, []string{"train.epochs=1"}, 4, "schedule.warmup is 4 in place of 200, a tenth of the run, which takes 45 steps"},
		{tooLong, []string{"train.steps=9"}, 1, "schedule.warmup is 1 in place of 200"},
		{tooLong, []string{"train.epochs=40"}, 200, ""},
		{tooLong, []string{"schedule.warmup=180"}, 0, "--set schedule.warmup=180: "},
		{tooLong, []string{"schedule.name=constant"}, 200, ""},
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
