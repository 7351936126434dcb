package jobs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestHostMemory: where host memory has room for one job alone, one that gives way in the middle of an epoch is
// saved and closed. It goes on from there, and has the weights that it has alone.
func TestHostMemory(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1", HostMemory: 1 << 20})
	long := text(t, "train.epochs=20", "seed=1", "train.batch=7")
	first := d.submit(t, dir, "long", long)
	want := map[int][]byte{first: long}
	for i := range 3 {
		d.until(t, first, func(v View) bool { return v.State == queue.Running && v.Where == "cpu:0" && v.Step >= (i+1)*200+3 })
		short := text(t, "train.epochs=3", "train.batch=128", fmt.Sprintf("seed=%d", 2+i))
		j, err := d.Submit(t.Context(), Submission{Key: fmt.Sprint("short", i), Config: short, Parent: dir, Priority: 1})
		if err != nil {
			t.Fatal(err)
		}
		want[j.ID] = short
		d.await(t, j.ID) // the long one, which waits for its memory, cannot be far behind
	}
	for id, config := range want {
		v := d.await(t, id)
		if v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", id, v.State, v.Failure())
		}
		if got := hash(t, v.Dir); got != alone(t, config) {
			t.Errorf("job %d has weights %s, and alone %s", id, got, alone(t, config))
		}
	}
	if v, _ := d.View(first); len(v.Attempts) != 4 {
		t.Errorf("the long job was opened %d times, and gave way 3 times", len(v.Attempts))
	}
}

// TestHostMemoryOfRunningJobs: a job whose device is free waits while those ahead of it have the host memory, and so do
// those behind it. Each says for whom. None is closed.
func TestHostMemoryOfRunningJobs(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:3", HostMemory: 1 << 20})
	var ids []int
	for i, set := range [][]string{{"train.epochs=10", "train.batch=7"}, {"train.epochs=50", "train.batch=128"}, {"train.epochs=15", "train.batch=7"}} {
		j, err := d.Submit(t.Context(), Submission{Key: fmt.Sprint(i), Config: text(t, set...), Parent: dir, Priority: -i})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	want := map[string]bool{}
	for i, id := range ids[1:] {
		v, err := d.View(id)
		if err != nil {
			t.Fatal(err)
		}
		needs := needsHost(v.Host + v.Data)
		if want[fmt.Sprint(id, " ", needs, ": after ", ids[i])] = false; i == 0 {
			want[fmt.Sprint(ids[2], " after ", id, ", which ", needs)] = false
		}
	}
	for over := 0; over < len(ids); time.Sleep(time.Millisecond) {
		over = 0
		running := 0
		for _, v := range d.Views() {
			if key := fmt.Sprint(v.ID, " ", v.Where); v.State == queue.Waiting && v.Where != "about to begin" {
				if _, known := want[key]; !known {
					t.Fatal("a job waits for another reason than expected: ", key)
				}
				want[key] = true
			}
			if v.State == queue.Running {
				running++
			}
			if v.State.Over() {
				over++
			}
		}
		if running > 1 {
			t.Fatalf("%d run: %+v", running, d.Views())
		}
	}
	for _, id := range ids {
		if v := d.await(t, id); v.State != queue.Finished || len(v.Attempts) != 1 {
			t.Errorf("job %d is %s after %d attempts: %s", id, v.State, len(v.Attempts), v.Failure())
		}
	}
	for why, said := range want {
		if !said {
			t.Error("nobody has said: ", why)
		}
	}
}

// TestHostMemoryInFront: host memory goes to the job in front, on whichever device the others run that have it. They are
// saved and closed once, and go on after it in their order.
func TestHostMemoryInFront(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:3", HostMemory: 1 << 20})
	var ids []int
	var all [][]byte
	for i := range 3 {
		config := text(t, "train.epochs=30", "train.batch=128", fmt.Sprint("seed=", i))
		j, err := d.Submit(t.Context(), Submission{Key: fmt.Sprint(i), Config: config, Parent: dir, Priority: i})
		if err != nil {
			t.Fatal(err)
		}
		ids, all = append(ids, j.ID), append(all, config)
		d.until(t, j.ID, func(v View) bool { return v.State == queue.Running && v.Step > 2 })
		for _, v := range d.Views() {
			if v.ID != j.ID && v.State.Over() {
				t.Fatalf("job %d has ended, and has not given way", v.ID)
			}
		}
	}
	var last time.Time
	for i := range ids {
		v := d.await(t, ids[2-i])
		if want := min(i+1, 2); v.State != queue.Finished || len(v.Attempts) != want {
			t.Fatalf("job %d is %s after %d attempts, expected %d: %s", v.ID, v.State, len(v.Attempts), want, v.Failure())
		}
		if got, want := hash(t, v.Dir), alone(t, all[2-i]); got != want {
			t.Errorf("job %d has weights %s, and alone %s", v.ID, got, want)
		}
		ended := v.Attempts[len(v.Attempts)-1].Ended
		if ended.Before(last) {
			t.Errorf("job %d has ended before one ahead of it", v.ID)
		}
		last = ended
	}
}

// TestEndsWithHostMemory: jobs that wait for host memory, though their devices are free, are foretold to end one after the
// other.
func TestEndsWithHostMemory(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:3", HostMemory: 1 << 20})
	var ids []int
	for i := range 3 {
		ids = append(ids, d.submit(t, dir, fmt.Sprint(i), text(t, "train.epochs=200000", fmt.Sprint("seed=", i))))
	}
	d.until(t, ids[0], func(v View) bool { return v.State == queue.Running && v.Length > 0 })
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.ends = nil // what was foretold before the first one's pace was known
	a := d.arrange(d.queue.Jobs(), now)
	ends := d.foresee(a, now)
	for i, j := range a.line[1:] {
		before := ends[a.line[i].Number]
		if end := ends[j.Number]; j.Length == 0 || end.Before(before.Add(j.Length/2)) {
			t.Errorf("job %d of %v is to end at %v, and the one before, whose host memory it waits for, at %v", j.Number, j.Length, end, before)
		}
	}
}

// TestHostMemoryOfACrowd: jobs whose priorities change all the time are saved and closed in any order, some with data
// in common, and have the weights that they have alone.
func TestHostMemoryOfACrowd(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	var all [][]byte
	for i := range 6 {
		all = append(all, text(t, "train.epochs=30", fmt.Sprintf("seed=%d", i%3), fmt.Sprintf("train.batch=%d", 7+i*9)))
	}
	table := onTable(t, dir, 2000, "train.epochs=30")
	all = append(all, table, table)
	var want []string
	for _, c := range all {
		want = append(want, alone(t, c))
	}
	d := startOn(t, dir, configs.Devices{Use: "cpu:2", HostMemory: 1300 << 10})
	for i, c := range all {
		d.submit(t, dir, fmt.Sprint(i), c)
	}
	for running := true; running; time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) {
		running = false
		views := d.Views()
		for _, v := range views {
			running = running || !v.State.Over()
		}
		if err := untrue(views); err != nil {
			t.Fatal(err)
		}
		_, _ = d.SetPriority(1+rand.IntN(len(all)), rand.IntN(10)) // of one that has ended, it is refused
	}
	attempts := 0
	for i, v := range d.Views() {
		attempts += len(v.Attempts)
		if v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", v.ID, v.State, v.Failure())
		}
		if got := hash(t, v.Dir); got != want[i] {
			t.Errorf("job %d in %s has weights %s, and alone %s", v.ID, filepath.Base(v.Dir), got, want[i])
		}
	}
	if n := d.owned.Data().Bytes(); attempts == len(all) || n != 0 {
		t.Errorf("%d attempts of %d jobs; %d bytes of data are left", attempts, len(all), n)
	}
	t.Logf("%d jobs were opened %d times", len(all), attempts)
}

// TestHostMemoryOfSteps: what a step takes that trains nothing is counted, so steps that do not fit together run one after the
// other.
func TestHostMemoryOfSteps(t *testing.T) {
	run := func(memory int64) map[string]View {
		t.Helper()
		dir := t.TempDir()
		d := startOn(t, dir, configs.Devices{Use: "cpu:2", HostMemory: memory})
		s := pipelineIn(t, dir, "")
		for _, i := range []int{2, 3} { // so that two of them take more than the least that can be given
			s.Steps[i].Config = gptText(t, dir, "model.width=64", "train.steps=20")
		}
		j, err := d.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, j.ID); v.State != queue.Finished {
			t.Fatalf("the pipeline is %s: %s", v.State, v.Where)
		}
		steps := map[string]View{}
		for _, v := range d.Views() {
			if v.StepOf != nil {
				steps[v.Name] = v
			}
		}
		return steps
	}
	steps := run(1 << 30)
	words, tuned, score := steps["words"], steps["tuned"], steps["score"]
	if size := sizeOf(words.Work.Texts[0]); size == 0 || words.Host != learnHost+learnPerByte*size {
		t.Errorf("a tokenizer of %d bytes of text takes %d bytes", size, words.Host)
	}
	if tuned.Host == 0 || tuned.Data == 0 || score.Host != tuned.Host || score.Data != tuned.Data || score.DataID == tuned.DataID {
		t.Errorf("an evaluation takes %d bytes and %d of data %q, its training %d and %d of %q", score.Host, score.Data, score.DataID, tuned.Host, tuned.Data, tuned.DataID)
	}
	for _, name := range []string{"model", "onnx", "folder"} {
		if v := steps[name]; v.Host != tuned.Host || v.Data != 0 {
			t.Errorf("%s takes %d bytes and %d of data, the training %d", name, v.Host, v.Data, tuned.Host)
		}
	}
	steps = run(tuned.Host * 3 / 2)
	behind := []string{"score", "model", "onnx", "folder"}
	slices.SortFunc(behind, func(a, b string) int { return steps[a].Attempts[0].Began.Compare(steps[b].Attempts[0].Began) })
	for i, name := range behind[1:] {
		if before := steps[behind[i]]; steps[name].Attempts[0].Began.Before(before.Attempts[0].Ended) {
			t.Errorf("%s ran beside %s", name, before.Name)
		}
	}
}
