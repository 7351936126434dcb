package jobs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// startAs is start with a program of a known revision.
func startAs(t testing.TB, dir, program string) running {
	t.Helper()
	return startWith(t, Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}, Program: program})
}

// TestDone: a job with the outcome of a finished one is finished at once, as that one, unless the other's checkpoint is
// changed, damaged or gone, another program trained it, or it is to train again.
func TestDone(t *testing.T) {
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	d := startAs(t, dir, "one")
	n := 0
	submit := func(s Submission) queue.Job {
		t.Helper()
		n++
		s.Key, s.Parent = fmt.Sprint(n), runs
		j, err := d.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	// trains says whether a submission is trained, in a folder of its own.
	trains := func(what string, want bool, s Submission, as View) View {
		t.Helper()
		before, err := os.ReadDir(runs)
		if err != nil {
			t.Fatal(err)
		}
		j := submit(s)
		if at := j.State == queue.Finished; at == want {
			t.Errorf("%s: it is %s at once", what, j.State)
		}
		v := d.await(t, j.ID)
		after, err := os.ReadDir(runs)
		if err != nil {
			t.Fatal(err)
		}
		if trained := v.As == 0 && len(v.Attempts) > 0 && v.Dir != as.Dir && len(after) == len(before)+1; trained != want || v.State != queue.Finished {
			t.Errorf("%s: it is %s, as job %d, in %s, with %d attempts; %d folders, before %d", what, v.State, v.As, v.Dir, len(v.Attempts), len(after), len(before))
		}
		if !want && (v.As != as.ID || v.Dir != as.Dir || v.Where != fmt.Sprintf("as job %d", as.ID) || len(after) != len(before)) {
			t.Errorf("%s: it is as job %d in %s (%s), expected job %d in %s", what, v.As, v.Dir, v.Where, as.ID, as.Dir)
		}
		return v
	}
	base := Submission{Config: text(t, "train.epochs=2")}
	first := d.await(t, submit(base).ID)
	trains("the same", false, base, first)
	trains("free keys", false, Submission{Config: text(t, "train.epochs=2", "name=other", "devices.memory=1GiB", "train.log_every=3")}, first)
	trains("of that length", false, Submission{Config: text(t), Length: []string{"train.epochs=2"}}, first)
	short := d.await(t, submit(Submission{Config: text(t, "schedule.name=cosine", "schedule.warmup=1", "train.steps=10")}).ID)
	trains("a warm-up that becomes as long", false, Submission{Config: text(t, "schedule.name=cosine", "schedule.warmup=40", "train.steps=10")}, short)
	trains("another seed", true, Submission{Config: text(t, "train.epochs=2", "seed=5")}, first)
	trains("other metrics", true, Submission{Config: text(t, "train.epochs=2", "train.metrics=[f1]")}, first)
	again := base
	again.Again = true
	second := trains("again", true, again, first)

	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	trains("the first is deleted", false, base, second)
	c, err := configs.Parse("longer", text(t, "train.epochs=3"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, c, second.Dir)
	third := trains("the second has trained on", true, base, second)
	damage(t, rundir.CheckpointPath(third.Dir))
	fourth := trains("the third is damaged", true, base, third)
	if err := d.Remove(fourth.ID); err != nil {
		t.Fatal(err)
	}
	fifth := trains("the fourth is forgotten", true, base, View{Job: queue.Job{Dir: third.Dir}})

	for _, program := range []string{"two", ""} {
		d.stop()
		d = startAs(t, dir, program)
		trains("by program "+program, true, base, fifth)
	}
	trains("by an unknown program", true, base, fifth)
	d.stop()
	d = startAs(t, dir, "one")
	trains("by the first program", false, base, fifth)
}

// goOn trains a run folder on.
func goOn(t *testing.T, c *configs.Config, dir string) {
	t.Helper()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Resume: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); err != nil {
		t.Fatal(err)
	}
}

// damage changes one byte of a tensor of the newest checkpoint.
func damage(t *testing.T, path string) {
	t.Helper()
	db, err := checkpoint.Open(path, checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := db.Latest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := s.Tensors()
	tensor := all[slices.IndexFunc(all, func(x checkpoint.Tensor) bool { return x.Meta.Bytes() > 4096 })]
	want := make([]byte, 64)
	if err := errors.Join(s.Read(tensor.Name, 0, want), db.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := 0; i+len(want) <= len(file); i++ {
		if slices.Equal(file[i:i+len(want)], want) {
			file[i]++
			found++
		}
	}
	if found == 0 {
		t.Fatalf("%s is nowhere in the file", tensor.Name)
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestDoneMeanwhile: of equal jobs that wait together one is trained, and without a daemon a job is finished at once,
// too.
func TestDoneMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	local := func(program string) queue.Job {
		t.Helper()
		l, err := OpenLocal(path)
		if err != nil {
			t.Fatal(err)
		}
		l.program = program
		j, err := l.Submit(t.Context(), Submission{Key: fmt.Sprint(len(l.Views())), Config: text(t, "train.epochs=1"), Parent: filepath.Join(dir, "runs")})
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		return j
	}
	one, two := local("one"), local("one")
	if one.State != queue.Waiting || two.State != queue.Waiting || one.Dir == two.Dir {
		t.Errorf("%s in %s and %s in %s", one.State, one.Dir, two.State, two.Dir)
	}
	d := startAs(t, dir, "one")
	first, second := d.await(t, one.ID), d.await(t, two.ID)
	if first.As != 0 || second.As != one.ID || second.Dir != first.Dir || second.State != queue.Finished {
		t.Errorf("the second is %s, as job %d in %s", second.State, second.As, second.Dir)
	}
	if _, err := os.Stat(two.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second has a folder: %v", err)
	}
	d.stop()
	if j := local("one"); j.State != queue.Finished || j.As != one.ID {
		t.Errorf("without a daemon it is %s, as job %d", j.State, j.As)
	}
	if j := local("two"); j.State != queue.Waiting {
		t.Errorf("of another program it is %s", j.State)
	}
}

// TestDoneByTwo: a run that two programs have trained in turn stands for none.
func TestDoneByTwo(t *testing.T) {
	dir := t.TempDir()
	base := text(t, "train.epochs=20") // long compared with a look at it
	d := startAs(t, dir, "one")
	id := d.submit(t, dir, "a", base)
	d.until(t, id, func(v View) bool { return v.Step > 50 })
	d.stop()
	d = startAs(t, dir, "two")
	v := d.await(t, id)
	if v.State != queue.Finished || len(v.Attempts) != 2 || v.Recipe != "" {
		t.Fatalf("it is %s after %d attempts, with recipe %q", v.State, len(v.Attempts), v.Recipe)
	}
	if j := d.await(t, d.submit(t, dir, "b", base)); j.As != 0 {
		t.Errorf("it is as job %d", j.As)
	}
}

// TestRecipe: each thing that weights follow from changes the recipe, and without one that is not known there is none.
func TestRecipe(t *testing.T) {
	parse := func(set ...string) *configs.Config {
		c, err := configs.Parse("config", text(t, set...), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	seen := map[string]int{}
	for i, x := range []struct {
		c                       *configs.Config
		data, numerics, program string
		inputs                  []string
	}{
		{parse(), "d", "cpu avx2", "p", nil},
		{parse("seed=2"), "d", "cpu avx2", "p", nil},
		{parse(), "e", "cpu avx2", "p", nil},
		{parse(), "d", "cpu avx512", "p", nil},
		{parse(), "d", "cpu avx2", "q", nil},
		{parse(), "d", "cpu avx2", "p", []string{"w"}},
		{parse(), "d", "cpu avx2", "p", []string{"w", "x"}},
		{parse(), "d", "cpu avx2", "p", []string{"wx"}},
		{parse(), "d", "cpu avx2p", "", nil},
		{parse(), "", "cpu avx2", "p", nil},
		{parse(), "d", "", "p", nil},
	} {
		r, err := recipeOf(x.c, x.data, x.numerics, x.program, x.inputs...)
		if err != nil {
			t.Fatal(err)
		}
		known := x.data != "" && x.numerics != "" && x.program != ""
		if at, twice := seen[r]; known == (r == "") || known && twice {
			t.Errorf("%d has recipe %q, as %d", i, r, at)
		}
		seen[r] = i
	}
}

// TestDoneSteps: a step of a pipeline is as a job before it, and gives the weights of that. What others give it counts by what is
// in it: weights of a job or of a file, and a tokenizer.
func TestDoneSteps(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	job := d.await(t, d.submit(t, dir, "job", text(t, "train.epochs=1")))
	writeText(t, filepath.Join(dir, "books", "a.txt"), 2000, 1)
	file := filepath.Join(dir, "given.safetensors")
	give := func(from, to string) {
		t.Helper()
		if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: from}, to); err != nil {
			t.Fatal(err)
		}
	}
	give(job.Dir, file)
	s, err := configs.SweepOfFlags("gpt", []string{"optimizer.lr=0.001,0.003"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	steps := func() []Step {
		words := []StepInput{{"words", queue.AsTokenizer}}
		return []Step{
			{Name: "base", Config: text(t, "train.epochs=1")},
			{Name: "tuned", Config: text(t, "train.epochs=1"), Inputs: []StepInput{{"base", queue.AsInit}}},
			{Name: "filed", Config: text(t, "train.epochs=1", "seed=3"), Init: file},
			{Name: "words", Work: &queue.Work{Kind: queue.WorkTokenizer, Texts: []string{filepath.Join(dir, "books")}, Vocab: 290}},
			{Name: "gpt", Config: gptText(t, dir, "train.steps=20"), Inputs: words},
			{Name: "swept", Config: gptText(t, dir, "train.steps=20"), Sweep: string(sweep), Inputs: words},
		}
	}
	n := 0
	as := func(list []Step) (as string) {
		t.Helper()
		n++
		p, err := d.Submit(t.Context(), inPipeline(dir, fmt.Sprint("p", n), list...))
		if err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, p.ID); v.State != queue.Finished {
			t.Fatalf("pipeline %d is %s: %s", n, v.State, v.Where)
		}
		for _, v := range d.Views() {
			if lead := v.Lead(); v.As == 0 || lead != p.ID && (v.Trial == nil || lead < p.ID) {
				continue
			}
			switch of, err := d.View(v.As); {
			case err != nil:
				t.Fatal(err)
			case v.Trial != nil:
				as += fmt.Sprintf("trial %d ", v.Trial.Number)
			default:
				as += v.StepOf.Name + " "
				if of.Dir != v.Dir || of.Step != v.Step || v.Step == 0 || *of.Loss != *v.Loss {
					t.Errorf("pipeline %d: step %s is in %s at step %d of %d with loss %v, as job %d in %s", n, v.StepOf.Name, v.Dir, v.Step, v.Steps, v.Loss, of.ID, of.Dir)
				}
			}
		}
		return as
	}
	const all = "base tuned filed gpt trial 1 trial 2 "
	for _, c := range []struct {
		name   string
		change func(s []Step)
		want   string
	}{
		{"the first", func([]Step) {}, "base "},
		{"the same", func([]Step) {}, all},
		{"the file elsewhere", func(s []Step) {
			s[2].Init = filepath.Join(dir, "moved.safetensors")
			if err := os.Rename(file, s[2].Init); err != nil {
				t.Fatal(err)
			}
		}, all},
		{"another file there", func([]Step) { give(folders(t, d.Views())("tuned"), file) }, "base tuned gpt trial 1 trial 2 "},
		{"another base", func(s []Step) { s[0].Config = text(t, "train.epochs=1", "seed=9") }, "filed gpt trial 1 trial 2 "},
		{"another tokenizer", func(s []Step) { s[3].Work.Vocab = 280 }, "base tuned filed "},
		{"another text", func([]Step) { writeText(t, filepath.Join(dir, "books", "a.txt"), 2000, 2) }, "base tuned filed "},
	} {
		list := steps()
		c.change(list)
		if got := as(list); got != c.want {
			t.Errorf("%s: as before are %q, expected %q", c.name, got, c.want)
		}
	}
}

// TestDoneThatWentOn: a training that began with weights and was closed in between is as one that was not, whatever has become of
// the weights.
func TestDoneThatWentOn(t *testing.T) {
	dir := t.TempDir()
	d := startAs(t, dir, "one")
	steps := []Step{{Name: "base", Config: text(t, "train.epochs=1")}, {Name: "tuned", Config: text(t, "train.epochs=20"), Inputs: []StepInput{{"base", queue.AsInit}}}}
	first, err := d.Submit(t.Context(), inPipeline(dir, "first", steps...))
	if err != nil {
		t.Fatal(err)
	}
	base, tuned := stepID(t, d.Views(), "base"), stepID(t, d.Views(), "tuned")
	d.until(t, tuned, func(v View) bool { return v.Step > 20 })
	if _, err := d.Want(tuned, queue.Pause); err != nil {
		t.Fatal(err)
	}
	d.until(t, tuned, func(v View) bool { return v.State == queue.Paused })
	if err := os.RemoveAll(d.await(t, base).Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Want(tuned, queue.Run); err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, first.ID); v.State != queue.Finished {
		t.Fatalf("the pipeline is %s: %s", v.State, v.Where)
	}
	second, err := d.Submit(t.Context(), inPipeline(dir, "second", steps...))
	if err != nil {
		t.Fatal(err)
	}
	d.await(t, second.ID)
	if again, err := d.View(second.ID + 1); err != nil || again.As != 0 {
		t.Errorf("the base, whose folder is gone, is as job %d, %v", again.As, err)
	}
	if again, err := d.View(second.ID + 2); err != nil || again.As != tuned {
		t.Errorf("what begins with its weights is as job %d, %v", again.As, err)
	}
}
