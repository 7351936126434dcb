package train_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// goingOn opens the run in a folder, with its config as it is there and other keys.
func goingOn(t *testing.T, dir string, set ...string) *berth.Run {
	t.Helper()
	c, err := configs.Load(filepath.Join(dir, "config.yaml"), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Resume: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A finished run goes on beyond its end at the schedule's last rate, or by another
// schedule; stopped anywhere and resumed, it ends with the same bits.
func TestLonger(t *testing.T) {
	for _, x := range []struct {
		set   []string
		until int // of the schedule
		says  string
	}{
		{[]string{"train.epochs=5"}, 33, "the run was finished at step 33, and goes on to step 55: the learning rate stays "},
		{[]string{"train.epochs=5", "schedule.name=linear"}, 55, "the run was finished at step 33, and goes on to step 55: the learning rate follows the schedule linear; the weights differ from those of a run of that length"},
		{[]string{"train.epochs=5", "schedule.name=cosine"}, 55, "the learning rate follows the schedule cosine"},
	}[:testall.Most(3, 1)] { // for a race, one schedule is as good as another
		begin := func() string {
			dir := t.TempDir()
			runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
			return dir
		}
		dir := begin()
		r := goingOn(t, dir, x.set...)
		if s := r.Config.Schedule; s.EndsAt != x.until || !strings.Contains(strings.Join(r.Notes(), "; "), x.says) {
			t.Errorf("%v: until %d, notes %q", x.set, s.EndsAt, r.Notes())
		}
		whole := runtest.Train(t, r, berth.TrainOptions{Dir: dir, Resume: true})
		if whole.Steps != 55 {
			t.Errorf("%v: %d steps", x.set, whole.Steps)
		}
		// The same, stopped before its first checkpoint as by a kill, and then twice.
		dir = begin()
		r = goingOn(t, dir, x.set...)
		tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
		if err == nil {
			err = errors.Join(tr.Step(t.Context()), tr.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, most := range []int{37, 46, 0} {
			rep := runtest.Train(t, goingOn(t, dir), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: most})
			if most == 0 && rep.WeightsSHA256 != whole.WeightsSHA256 {
				t.Errorf("%v: other weights after a stop", x.set)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
		if err != nil || !strings.Contains(string(text), "ends_at: ") {
			t.Errorf("%v: %v\n%s", x.set, err, text)
		}
	}
}

// With rates that do not depend on the length, the longer run is that of this length.
func TestLongerIsWhole(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "schedule.name=constant"), berth.TrainOptions{Dir: dir})
	r := goingOn(t, dir, "train.epochs=5")
	if s := r.Config.Schedule; s.EndsAt != 0 || !strings.Contains(strings.Join(r.Notes(), "; "), "the rates of its schedule do not depend on the length") {
		t.Errorf("until %d, notes %q", s.EndsAt, r.Notes())
	}
	got := runtest.Train(t, r, berth.TrainOptions{Dir: dir, Resume: true})
	want := runtest.Train(t, runtest.Open(t, runtest.Everything, "schedule.name=constant", "train.epochs=5"), berth.TrainOptions{Dir: t.TempDir()})
	if got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("other weights")
	}
}

// The length of an unfinished run stays what it is.
func TestLongerUnfinished(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 20})
	r := goingOn(t, dir, "train.epochs=5")
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "train.epochs was 3, is 5") {
		t.Errorf("got %v", err)
	}
}

// A run that goes on at a rate of almost 0 says that it learns next to nothing.
func TestLongerAtLittle(t *testing.T) {
	for _, x := range []struct {
		schedule, says string
	}{
		{"{name: cosine}", " on (schedule.ends_at) and learns next to nothing, unless --schedule names a schedule; "},
		{"{name: cosine, min_lr: 0.0005}", " on (schedule.ends_at), unless --schedule names a schedule; "},
	} {
		dir := t.TempDir()
		text := "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 1}\noptimizer: {name: sgd, lr: 0.01}\nschedule: " + x.schedule + "\n"
		runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir})
		r := goingOn(t, dir, "train.epochs=2")
		if notes := strings.Join(r.Notes(), "; "); !strings.Contains(notes, x.says) {
			t.Errorf("%s: %q", x.schedule, notes)
		}
	}
}
