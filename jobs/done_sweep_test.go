package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// swept submits a sweep of digits and waits for its end.
func (r running) swept(t *testing.T, dir, key string, vary []string, flags map[string]string, again bool) *Standing {
	t.Helper()
	s, err := configs.SweepOfFlags("digits", vary, flags)
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	j, err := r.Submit(t.Context(), Submission{Key: key, Config: text(t, "train.epochs=6"), Sweep: string(yaml), Parent: filepath.Join(dir, "runs"), Again: again})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.await(t, j.ID); v.State != queue.Finished {
		t.Fatalf("the sweep is %s: %s", v.State, v.Where)
	}
	st, err := StandingOf(r.Views(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// reached is what the trials of a sweep have reached, and which is the best. own counts those that trained.
func (st *Standing) reached() (text string, own int) {
	var b strings.Builder
	for i, v := range st.Trials {
		fmt.Fprintf(&b, "trial %d %v: %s, out %v, step %d of %d:", i+1, v.Trial.Settings, v.State, v.Trial.Out, v.Trial.Step, v.Trial.Steps)
		for _, x := range v.Trial.Values {
			fmt.Fprint(&b, " ", *x)
		}
		fmt.Fprintln(&b)
		if v.As == 0 {
			own++
		}
	}
	fmt.Fprintf(&b, "best %d\n", st.Decision.Best)
	return b.String(), own
}

var varied = []string{"optimizer.lr=0.001,0.01,0.003,0.0001,0.03", "model.hidden=[16],[24,8]"}

// TestDoneSweeps: the trials of a sweep that was there before are not trained, and all comes out alike; a sweep without halving
// trains the trials that were out.
func TestDoneSweeps(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	halving := map[string]string{"halving": "true"}
	first := d.swept(t, dir, "first", varied, halving, false)
	want, own := first.reached()
	if own != 10 || !strings.Contains(want, "out true") {
		t.Fatalf("%d trials trained:\n%s", own, want)
	}
	kept := func() (n int) {
		for _, v := range first.Trials {
			if _, err := os.Stat(rundir.CheckpointPath(v.Dir)); err == nil {
				n++
			}
		}
		return n
	}
	if n := kept(); n != 3 {
		t.Fatalf("%d trials have checkpoints", n)
	}
	second := d.swept(t, dir, "second", varied, map[string]string{"halving": "true", "keep": "1"}, false)
	if got, own := second.reached(); got != want || own != 0 {
		t.Errorf("%d trials trained again:\n%s\nfirst:\n%s", own, got, want)
	}
	if n := kept(); n != 3 {
		t.Errorf("the second sweep left %d of 3 checkpoints of the first", n)
	}
	if list, err := os.ReadDir(filepath.Join(dir, "runs", "digits-2")); err != nil || len(list) != 0 {
		t.Errorf("the folder of the second sweep has %v: %v", list, err)
	}
	third := d.swept(t, dir, "third", varied, halving, true)
	if got, own := third.reached(); got != want || own != 10 {
		t.Errorf("again, %d trials trained:\n%s", own, got)
	}
	whole := d.swept(t, dir, "whole", varied, nil, false)
	got, own := whole.reached()
	if strings.Contains(got, "out true") || own != 9 {
		t.Errorf("without halving %d trials trained:\n%s", own, got)
	}
	for i, v := range whole.Trials {
		if f := first.Trials[i]; !f.Trial.Out && *v.Trial.Values[0] != *f.Trial.Values[2] {
			t.Errorf("trial %d has %v, with halving %v", i+1, *v.Trial.Values[0], *f.Trial.Values[2])
		}
	}
	if err := os.Remove(filepath.Join(first.Trials[0].Dir, rundir.MetricsName)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(third.Trials[0].Dir); err != nil {
		t.Fatal(err)
	}
	fourth := d.swept(t, dir, "fourth", varied, halving, false)
	if got, own := fourth.reached(); got != want || own != 1 || fourth.Trials[0].As != 0 {
		t.Errorf("%d trials trained, of which the first is changed:\n%s", own, got)
	}
}

// TestDoneFurther: a trial that is as another one up to a rung, and goes further than that, trains in a folder of its
// own, and has what it has alone.
func TestDoneFurther(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	halving := map[string]string{"halving": "true"}
	many := d.swept(t, dir, "many", varied, halving, false)
	few := d.swept(t, dir, "few", []string{"optimizer.lr=0.001,0.0001", "model.hidden=[16],[24,8]"}, halving, false)
	alone := d.swept(t, dir, "alone", []string{"optimizer.lr=0.001,0.0001", "model.hidden=[16],[24,8]"}, halving, true)
	got, own := few.reached()
	if want, _ := alone.reached(); got != want || own != 1 {
		t.Errorf("%d trials trained:\n%s\nalone:\n%s", own, got, want)
	}
	best := few.Trials[few.Decision.Best-1]
	if best.As != 0 || filepath.Dir(best.Dir) != filepath.Join(dir, "runs", "digits-2") || hash(t, best.Dir) != hash(t, alone.Trials[alone.Decision.Best-1].Dir) {
		t.Errorf("the best is job %d in %s; of the first sweep:\n%+v", best.ID, best.Dir, many.Decision)
	}
}

// TestDoneJobAndTrial: a trial that is whole stands for a job, and a job for a trial, also up to a rung. So it is where
// the trials have different data, which are known once they are open.
func TestDoneJobAndTrial(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	job := d.await(t, d.submit(t, dir, "job", text(t, "train.epochs=6", "seed=3")))
	seeds := []string{"seed=2,3,4,5,6,7,8,9,10"}
	for _, flags := range []map[string]string{{}, {"halving": "true"}} {
		st := d.swept(t, dir, "seeds"+flags["halving"], seeds, flags, false)
		v := st.Trials[1]
		if v.As != job.ID {
			t.Errorf("%v: trial 2 is as job %d", flags, v.As)
		}
		alone := d.swept(t, dir, "alone"+flags["halving"], seeds, flags, true)
		got, _ := st.reached()
		if want, _ := alone.reached(); got != want {
			t.Errorf("%v:\n%s\nalone:\n%s", flags, got, want)
		}
		best := alone.Trials[alone.Decision.Best-1]
		config, err := d.Config(best.ID)
		if err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, d.submit(t, dir, "best"+flags["halving"], config)); v.As == 0 || hash(t, v.Dir) != hash(t, best.Dir) {
			t.Errorf("%v: the best is trained anew: %+v", flags, v)
		}
	}
}

// TestSaidOnce: trials that are out and were trained before are one line, since there may be hundreds.
func TestSaidOnce(t *testing.T) {
	dir := t.TempDir()
	lines := make(chan string, 1000)
	d := startWith(t, Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}, Program: "one", Told: func(s string) { lines <- s }})
	for _, key := range []string{"first", "second"} {
		d.swept(t, dir, key, varied, map[string]string{"halving": "true"}, false)
	}
	out, before, ended := 0, 0, 0
	for ended < 2 {
		switch line := <-lines; {
		case strings.Contains(line, "is the best"):
			ended++
		case strings.Contains(line, "is out"):
			out++
		case strings.Contains(line, "are out"):
			before++
		}
	}
	if out != 9 || before == 0 || before > 3 {
		t.Errorf("%d lines for the trials of the first sweep that are out, and %d for those of the second", out, before)
	}
}

// TestMoreTrials: the same sweep with more trials adds them to the one that is there and repeats none; the added ones are halved
// among themselves. Another text, config, folder or data makes a sweep of its own.
func TestMoreTrials(t *testing.T) {
	dir := t.TempDir()
	d := startWith(t, Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}}) // of no known program
	vary := []string{"optimizer.lr=log:1e-4..1e-1"}
	flags := func(trials string) map[string]string { return map[string]string{"halving": "true", "trials": trials} }
	few := d.swept(t, dir, "few", vary, flags("5"), false)
	before := map[int]View{}
	for _, v := range few.Trials {
		before[v.ID] = *v
	}
	more := d.swept(t, dir, "more", vary, flags("9"), false)
	if got := more.Sweep.Trials; len(got) != 2 || got[0] != 5 || got[1] != 4 {
		t.Fatalf("it has %v trials", got)
	}
	for i, v := range more.Trials {
		was, had := before[v.ID]
		if had != (i < 5) || had && len(v.Attempts) != len(was.Attempts) || v.Trial.Sweep != few.Trials[0].Trial.Sweep {
			t.Errorf("trial %d: job %d of sweep %d with %d attempts, before %d", i+1, v.ID, v.Trial.Sweep, len(v.Attempts), len(was.Attempts))
		}
	}
	whole := 0
	for _, v := range more.Trials[5:] {
		if !v.Trial.Out {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("of the added trials %d went on to the end", whole)
	}
	twice, _ := more.reached()
	together := d.swept(t, dir, "again", vary, flags("[5, 4]"), true)
	if got, own := together.reached(); got != twice || own != 9 {
		t.Errorf("with all %d trials at once:\n%s\none after the other:\n%s", own, got, twice)
	}
	submit := func(key, flags string, s Submission) queue.Job {
		t.Helper()
		sweep, err := configs.SweepOfFlags("digits", vary, map[string]string{"halving": flags, "trials": "12"})
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := sweep.YAML()
		if err != nil {
			t.Fatal(err)
		}
		s.Key, s.Sweep, s.Parent = key, string(yaml), filepath.Join(dir, "runs")
		j, err := d.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Want(j.ID, queue.Cancel); err != nil {
			t.Fatal(err)
		}
		return j
	}
	config := text(t, "train.epochs=6")
	for key, s := range map[string]Submission{
		"config": {Config: text(t, "train.epochs=7")}, "again": {Config: config, Again: true}, "folder": {Config: config, Dir: filepath.Join(dir, "own")},
	} {
		if j := submit("other "+key, "true", s); len(j.Sweep.Submitted) > 0 {
			t.Errorf("%s: trials were added to sweep %d", key, j.ID)
		}
	}
	if j := submit("other text", "false", Submission{Config: config}); len(j.Sweep.Submitted) > 0 {
		t.Errorf("another text: trials were added to sweep %d", j.ID)
	}
	if j := submit("last", "true", Submission{Config: config}); j.ID != together.Trials[0].Trial.Sweep { // the newest that was not cancelled
		t.Errorf("the trials were added to sweep %d", j.ID)
	}
}

// TestAddedTwice: a submission that added trials is answered with the same sweep when it is sent again, also by the next daemon,
// and so is the first one.
func TestAddedTwice(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	submit := func(key, trials string) queue.Job {
		t.Helper()
		j, err := d.Submit(t.Context(), Submission{Key: key, Config: text(t), Parent: dir, Sweep: "sweep: {config: digits, vary: {optimizer.lr: 0.1..0.2}, trials: " + trials + "}"})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	first := submit("a", "4")
	for range 2 {
		for key, trials := range map[string]string{"b": "6", "a": "4"} {
			if j := submit(key, trials); j.ID != first.ID || key == "b" && !strings.Contains(j.Sweep.Text, "[4, 2]") {
				t.Errorf("%s: job %d\n%s", key, j.ID, j.Sweep.Text)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = openCPU(t, filepath.Join(dir, "queue.db"))
	}
	if list := d.Views(); len(list) != 1 {
		t.Errorf("there are %d jobs", len(list))
	}
}

// TestWidenedGrid: a grid that is widened twice trains each combination once.
func TestWidenedGrid(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	trained := map[string]int{}
	for i, c := range []struct {
		vary []string
		all  int
	}{
		{[]string{"optimizer.lr=0.01,0.001"}, 2},
		{[]string{"optimizer.lr=0.01,0.003,0.001"}, 3},
		{[]string{"optimizer.lr=0.01,0.003,0.001,0.0001", "model.hidden=[128,64],[24,8]"}, 8},
	} {
		st := d.swept(t, dir, fmt.Sprint(i), c.vary, nil, false)
		if len(st.Trials) != c.all {
			t.Errorf("%v: %d trials", c.vary, len(st.Trials))
		}
	}
	for _, v := range d.Views() {
		if v.Trial != nil && v.As == 0 {
			config, err := d.Config(v.ID)
			if err != nil {
				t.Fatal(err)
			}
			trained[string(config)]++
		}
	}
	for config, n := range trained {
		if n != 1 {
			t.Errorf("%d times:\n%s", n, config)
		}
	}
	if len(trained) != 8 {
		t.Errorf("%d combinations were trained", len(trained))
	}
}

// TestDiskOfSweeps: a sweep takes at most what is foretold, and is refused where there is less room; trials that are added are,
// too.
func TestDiskOfSweeps(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:2")
	run := filepath.Join(dir, "runs", "digits")
	var most atomic.Int64
	ended, watched := make(chan bool), make(chan bool)
	go func() {
		defer close(watched)
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			case <-time.After(5 * time.Millisecond):
			}
			most.Store(max(most.Load(), sizeOf(run)))
		}
	}()
	vary := []string{"model.hidden=[16],[24,8],[200,100],[100,200]", "optimizer.lr=0.01,0.001,0.003"}
	st := d.swept(t, dir, "a", vary, map[string]string{"keep": "2", "trials": "9", "halving": "true"}, false)
	close(ended)
	<-watched
	j, err := d.View(st.Trials[0].Trial.Sweep)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d bytes", most.Load(), j.Sweep.Disk)
	if took := most.Load(); took > j.Sweep.Disk || took < j.Sweep.Disk/20 {
		t.Errorf("it took up to %d bytes, foretold %d", took, j.Sweep.Disk)
	}
	defer func(r func(string) (int64, bool)) { room = r }(room)
	submit := func(key string, trials int) (queue.Job, error) {
		s, err := configs.SweepOfFlags("digits", vary, map[string]string{"keep": "2", "trials": fmt.Sprint(trials), "halving": "true"})
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return d.Submit(t.Context(), Submission{Key: key, Config: text(t, "train.epochs=6"), Sweep: string(yaml), Parent: filepath.Join(dir, "runs")})
	}
	jobs := len(d.Views())
	room = func(string) (int64, bool) { return j.Sweep.Disk / 20, true }
	for trials, key := range map[int]string{9: "new", 12: "added"} {
		if _, err := submit(key, trials); err == nil || !strings.Contains(err.Error(), "keep checkpoints of fewer trials (--keep)") || !strings.Contains(err.Error(), " of the disk, and "+run[:len(run)-7]) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if now := len(d.Views()); now != jobs {
		t.Errorf("%d jobs, before %d", now, jobs)
	}
	room = func(string) (int64, bool) { return j.Sweep.Disk * 9 / 10, true } // enough for those that are added
	if more, err := submit("added", 12); err != nil || more.ID != j.ID || more.Sweep.Disk <= j.Sweep.Disk {
		t.Errorf("added: %+v, %v", more, err)
	}
	d.await(t, j.ID)
}

// TestDiskOfSteps: a pipeline whose sweeps have no room on the disk together is refused. A sweep that is planned once its input has
// finished fails then, before it trains, and goes on once there is room.
func TestDiskOfSteps(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	var free atomic.Int64
	defer func(r func(string) (int64, bool)) { room = r }(room)
	room = func(string) (int64, bool) { return free.Load(), true }
	s, err := configs.SweepOfFlags("gpt", []string{"optimizer.lr=0.001,0.01"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	submit := func(key string, steps ...Step) (queue.Job, error) {
		return d.Submit(t.Context(), inPipeline(dir, key, steps...))
	}
	one, two := Step{Name: "one", Config: text(t, "train.epochs=1"), Sweep: string(yaml)}, Step{Name: "two", Config: text(t, "train.epochs=1", "seed=2"), Sweep: string(yaml)}
	free.Store(1 << 40)
	first, err := submit("first", one)
	if err != nil {
		t.Fatal(err)
	}
	each := d.Views()[1].Sweep.Disk
	d.await(t, first.ID)

	free.Store(each + each/2)
	if _, err := submit("both", one, two); err == nil || !strings.Contains(err.Error(), " of the disk, and ") || len(d.Views()) != 4 {
		t.Errorf("two sweeps with room for one: %v, and %d jobs", err, len(d.Views()))
	}
	if p, err := submit("one", two); err != nil {
		t.Errorf("one sweep: %v", err)
	} else {
		d.await(t, p.ID)
	}

	free.Store(0)
	writeText(t, filepath.Join(dir, "books", "a.txt"), 2000, 1)
	later, err := submit("later", Step{Name: "words", Work: &queue.Work{Kind: queue.WorkTokenizer, Texts: []string{filepath.Join(dir, "books")}, Vocab: 290}},
		Step{Name: "base", Config: gptText(t, dir, "train.steps=20"), Sweep: string(yaml), Inputs: []StepInput{{"words", queue.AsTokenizer}}})
	if err != nil {
		t.Fatal(err)
	}
	base := later.ID + 2
	if v := d.await(t, base); v.State != queue.Failed || !strings.Contains(v.Where, " of the disk, and ") {
		t.Errorf("a sweep that is planned later is %s: %s", v.State, v.Where)
	}
	d.await(t, later.ID)
	free.Store(1 << 40)
	if _, err := d.Want(base, queue.Run); err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, later.ID); v.State != queue.Finished {
		t.Errorf("the pipeline is %s: %s", v.State, v.Where)
	}
}

// TestDoneTrialsOfSteps: a sweep that gives its best weights to another step trains the trial again whose checkpoint an earlier
// sweep has deleted, and is as one whose checkpoint is there. That one is kept then.
func TestDoneTrialsOfSteps(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	before := d.swept(t, dir, "before", []string{"optimizer.lr=0.01,0.003,0.0003"}, map[string]string{"keep": "1"}, false)
	for i, rates := range []string{"0.0003,0.0001", "0.01,0.0001"} {
		s, err := configs.SweepOfFlags("digits", []string{"optimizer.lr=" + rates}, nil)
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Submit(t.Context(), inPipeline(dir, fmt.Sprint("p", i), Step{Name: "base", Config: text(t, "train.epochs=6"), Sweep: string(yaml)},
			Step{Name: "tuned", Config: text(t, "train.epochs=1"), Inputs: []StepInput{{"base", queue.AsInit}}}))
		if err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, p.ID); v.State != queue.Finished {
			t.Fatalf("rates %s: the pipeline is %s: %s", rates, v.State, v.Where)
		}
		st, err := StandingOf(d.Views(), p.ID+1)
		if err != nil {
			t.Fatal(err)
		}
		if as := st.Trials[0].As; (as != 0) != (i == 1) || i == 1 && as != before.Trials[0].ID {
			t.Errorf("rates %s: the best trial is as job %d", rates, as)
		}
	}
	list := d.queue.Jobs()
	if !sharedRun(list, index(list, before.Trials[0].ID)) || sharedRun(list, index(list, before.Trials[1].ID)) {
		t.Error("the run of a trial is that of another one, or not")
	}
}

// TestMoreTrialsOfSteps: the same pipeline with more trials in its sweep trains those that were added, and no others, with halving
// too where no other goes further. Where the checkpoint of the best is gone, that one is trained again, and gives the same weights.
func TestMoreTrialsOfSteps(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	n := 0
	pipeline := func(halving bool, rates string) (trained string, st *Standing, tuned View) {
		t.Helper()
		flags := map[string]string{"keep": "1"}
		if halving {
			flags["halving"] = "true"
		}
		s, err := configs.SweepOfFlags("digits", []string{"optimizer.lr=" + rates}, flags)
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		n++
		p, err := d.Submit(t.Context(), inPipeline(dir, fmt.Sprint("p", n), Step{Name: "base", Config: text(t, "train.epochs=6"), Sweep: string(yaml)},
			Step{Name: "tuned", Config: text(t, "train.epochs=1"), Inputs: []StepInput{{"base", queue.AsInit}}}))
		if err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, p.ID); v.State != queue.Finished {
			t.Fatalf("rates %s: the pipeline is %s: %s", rates, v.State, v.Where)
		}
		if st, err = StandingOf(d.Views(), p.ID+1); err != nil {
			t.Fatal(err)
		}
		for i, v := range st.Trials {
			if v.As == 0 {
				trained += fmt.Sprint(i+1, " ")
			}
		}
		if tuned, err = d.View(p.ID + 2); err != nil {
			t.Fatal(err)
		}
		return trained, st, tuned
	}
	for _, halving := range []bool{false, true} {
		rates := "0.003,0.01,0.0003"
		if halving {
			rates = "0.002,0.02,0.0002"
		}
		trained, first, tuned := pipeline(halving, rates)
		if trained != "1 2 3 " || first.Decision.Best != 2 {
			t.Fatalf("halving %v: trained are %s, and trial %d is the best", halving, trained, first.Decision.Best)
		}
		trained, more, again := pipeline(halving, rates+",0.0001,0.00001")
		if trained != "4 5 " || more.Decision.Best != 2 || more.Trials[1].Dir != first.Trials[1].Dir || again.As != tuned.ID {
			t.Errorf("halving %v: with more trials trained are %s, trial %d is the best, in %s, and what begins with it is as job %d", halving, trained, more.Decision.Best, more.Trials[1].Dir, again.As)
		}
		if err := os.Remove(rundir.CheckpointPath(first.Trials[1].Dir)); err != nil {
			t.Fatal(err)
		}
		trained, last, again := pipeline(halving, rates)
		if trained != "2 " || again.As != tuned.ID || hash(t, last.Trials[1].Dir) != hash(t, first.Trials[1].Dir) {
			t.Errorf("halving %v: without the checkpoint trained are %s, and what begins with the best is as job %d", halving, trained, again.As)
		}
		got, _ := last.reached()
		if want, _ := first.reached(); got != want {
			t.Errorf("halving %v: got\n%s\nfirst\n%s", halving, got, want)
		}
	}
}
