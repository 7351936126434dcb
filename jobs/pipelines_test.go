package jobs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// writeText writes a text of random words.
func writeText(t testing.TB, path string, words int, seed uint64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "%s%s ", []string{"the", "a", "some", "no"}[random.IntN(4)], []string{" ship", " berth", " pier", "thing", "body"}[random.IntN(5)])
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gptText is the config of a small model of the text in a folder.
func gptText(t testing.TB, dir string, set ...string) []byte {
	t.Helper()
	c, err := configs.Parse("gpt", []byte(`name: gpt
data: {source: text, path: books, context: 16, split: 0.9}
model: {preset: gpt, layers: 1, heads: 2, width: 16}
train: {steps: 60, boundary: 20, batch: 4}
optimizer: {name: adam, lr: 0.01}
`), configs.Overlay{Set: append([]string{"data.path=" + filepath.Join(dir, "books")}, set...)})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// pipelineIn is a pipeline of every kind of job, of the texts that it writes into a folder. sweep makes the first training
// a sweep of that text.
func pipelineIn(t testing.TB, dir, sweep string) Submission {
	t.Helper()
	writeText(t, filepath.Join(dir, "books", "a.txt"), 2000, 1)
	writeText(t, filepath.Join(dir, "held.txt"), 500, 2)
	tokenizer := StepInput{"words", queue.AsTokenizer}
	return Submission{
		Key: "pipeline", Name: "tune", Config: []byte("jobs: {}"), Parent: filepath.Join(dir, "runs"),
		Steps: []Step{
			{Name: "score", Work: &queue.Work{Kind: queue.WorkEval, Set: []string{"data.path=" + filepath.Join(dir, "held.txt")}}, Inputs: []StepInput{{"tuned", queue.AsRun}}},
			{Name: "words", Work: &queue.Work{Kind: queue.WorkTokenizer, Texts: []string{filepath.Join(dir, "books")}, Vocab: 290}},
			{Name: "base", Config: gptText(t, dir), Sweep: sweep, Inputs: []StepInput{tokenizer}},
			{Name: "tuned", Config: gptText(t, dir, "seed=2"), Length: []string{"train.steps=40"}, Inputs: []StepInput{tokenizer, {"base", queue.AsInit}}},
			{Name: "model", Work: &queue.Work{Kind: queue.WorkExport, Format: "safetensors", Out: filepath.Join(dir, "out", "m.safetensors")}, Inputs: []StepInput{{"tuned", queue.AsRun}}},
			{Name: "onnx", Work: &queue.Work{Kind: queue.WorkExport, Format: "onnx", Out: filepath.Join(dir, "out", "m.onnx")}, Inputs: []StepInput{{"tuned", queue.AsRun}}},
			{Name: "folder", Work: &queue.Work{Kind: queue.WorkExport, Format: "hf", Out: filepath.Join(dir, "out", "hf")}, Inputs: []StepInput{{"tuned", queue.AsRun}}},
		},
	}
}

// madeIn is what a pipeline of pipelineIn has made in a folder, with the run folder of each step.
func madeIn(t rapid.TB, dir string, run func(step string) string) string {
	t.Helper()
	sum := func(path string) string {
		s, err := sumOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	score, err := os.ReadFile(filepath.Join(run("score"), EvalName))
	if err != nil {
		t.Fatal(err)
	}
	model, again := filepath.Join(dir, "out", "m.safetensors"), filepath.Join(dir, "again.safetensors")
	if _, err := berth.ExportSafetensors(context.Background(), berth.Weights{Dir: run("tuned")}, again); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("words %s\nbase %s\ntuned %s\nscore %s\nmodel %v\nonnx %s\nfolder %s", sum(tokenizerFile(run("words"))), hash(t, run("base")), hash(t, run("tuned")),
		score, sum(model) == sum(again), sum(filepath.Join(dir, "out", "m.onnx")), sum(filepath.Join(dir, "out", "hf")))
}

// byHand does what a pipeline of pipelineIn does, without a queue, in other folders of dir. base is the run of the first
// training; "": it is trained.
func byHand(t testing.TB, from, dir, base string) string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(step string) string { return filepath.Join(dir, "hand", step) }
	check(os.MkdirAll(run("words"), 0o755))
	check(os.MkdirAll(run("score"), 0o755))
	check(os.MkdirAll(filepath.Join(dir, "out"), 0o755))
	b, err := datasets.LearnTokenizer(t.Context(), []string{filepath.Join(from, "books")}, datasets.LearnOptions{Vocab: 290})
	check(err)
	f, err := os.Create(tokenizerFile(run("words")))
	check(err)
	check(errors.Join(b.Write(f), f.Close()))
	train := func(step, init string, text []byte, set ...string) {
		c, err := configs.Parse("gpt", text, configs.Overlay{Set: append(set, "data.tokenizer="+tokenizerFile(run("words")))})
		check(err)
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		check(err)
		_, err = r.Train(t.Context(), berth.TrainOptions{Dir: run(step), Init: init})
		check(errors.Join(err, r.Close()))
	}
	if base == "" {
		base = run("base")
		train("base", "", gptText(t, from))
	}
	init := filepath.Join(dir, "hand", "init.safetensors")
	_, err = berth.ExportSafetensors(t.Context(), berth.Weights{Dir: base}, init)
	check(err)
	train("tuned", init, gptText(t, from, "seed=2"), "train.steps=40")
	w := berth.Weights{Dir: run("tuned")}
	c, err := configs.Parse("gpt", gptText(t, from, "seed=2"), configs.Overlay{Set: []string{"train.steps=40", "data.tokenizer=" + tokenizerFile(run("words")), "data.path=" + filepath.Join(from, "held.txt")}})
	check(err)
	model, err := berth.OpenTrained(t.Context(), c, w, berth.TrainedOptions{})
	check(err)
	e, err := model.Eval(t.Context())
	check(errors.Join(err, model.Close()))
	text, err := json.Marshal(e)
	check(err)
	check(os.WriteFile(filepath.Join(run("score"), EvalName), append(text, '\n'), 0o600))
	_, err = berth.ExportSafetensors(t.Context(), w, filepath.Join(dir, "out", "m.safetensors"))
	check(err)
	_, err = berth.ExportONNX(t.Context(), w, filepath.Join(dir, "out", "m.onnx"))
	check(err)
	_, err = berth.Export(t.Context(), w, filepath.Join(dir, "out", "hf"))
	check(err)
	return madeIn(t, dir, func(step string) string {
		if step == "base" {
			return base
		}
		return run(step)
	})
}

// folders are the run folders of a pipeline's steps.
func folders(t rapid.TB, views []View) func(step string) string {
	return func(step string) string {
		for _, v := range views {
			if v.StepOf != nil && v.StepOf.Name == step {
				return v.Dir
			}
		}
		t.Fatalf("there is no step %s", step)
		return ""
	}
}

// stepID is the job of a step.
func stepID(t testing.TB, views []View, step string) int {
	t.Helper()
	for _, v := range views {
		if v.StepOf != nil && v.StepOf.Name == step {
			return v.ID
		}
	}
	t.Fatalf("there is no step %s", step)
	return 0
}

// TestPipeline: each step makes what it makes by hand, one after the other, to the byte.
func TestPipeline(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:2")
	j, err := d.Submit(t.Context(), pipelineIn(t, dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Views() {
		if v.StepOf != nil && v.StepOf.Name == "score" && v.Where != fmt.Sprintf("waits for job %d (tuned)", v.ID+3) {
			t.Errorf("the last step %s", v.Where)
		}
	}
	if v := d.await(t, j.ID); v.State != queue.Finished {
		t.Fatalf("the pipeline is %s: %s", v.State, v.Where)
	}
	got, want := madeIn(t, dir, folders(t, d.Views())), byHand(t, dir, t.TempDir(), "")
	if got != want {
		t.Errorf("got\n%s\nby hand\n%s", got, want)
	}
	for _, v := range d.Views() {
		if len(v.Attempts) > 1 {
			t.Errorf("job %d (%s) has %d attempts", v.ID, v.Name, len(v.Attempts))
		}
		if _, err := os.Stat(filepath.Join(v.Dir, initName)); err == nil {
			t.Errorf("job %d leaves its %s", v.ID, initName)
		}
		for _, m := range v.Made {
			if sum, err := sumOf(m.Path); err != nil || sum != m.SHA256 {
				t.Errorf("%s has SHA-256 %s, %v; the queue has %s", m.Path, sum, err, m.SHA256)
			}
		}
	}
	tuned, err := d.Config(stepID(t, d.Views(), "tuned"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"steps: 40", "tokenizer: " + tokenizerFile(folders(t, d.Views())("words"))} {
		if !strings.Contains(string(tuned), part) {
			t.Errorf("the config has no %s:\n%s", part, tuned)
		}
	}
	if again, err := d.Submit(t.Context(), pipelineIn(t, dir, "")); err != nil || again.ID != j.ID || len(d.Views()) != 8 {
		t.Errorf("sent again: job %d, %v", again.ID, err)
	}
}

// TestPipelineOfSweep: a sweep gives the weights of its best trial, and RunOnly runs a pipeline to its end.
func TestPipelineOfSweep(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	s, err := configs.SweepOfFlags("gpt", []string{"optimizer.lr=0.0001,0.02,0.001"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.Submit(t.Context(), pipelineIn(t, dir, string(sweep)))
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := OpenFor(j.ID, Options{Queue: path, Told: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := d.RunOnly(ctx, j.ID)
	if err != nil || v.State != queue.Finished {
		t.Fatalf("the pipeline is %s: %s, %v", v.State, v.Where, err)
	}
	st, err := StandingOf(d.Views(), stepID(t, d.Views(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	best := st.Trials[st.Decision.Best-1].Dir
	if st.Decision.Best != 2 {
		t.Errorf("trial %d is the best", st.Decision.Best)
	}
	got := madeIn(t, dir, func(step string) string {
		if step == "base" {
			return best
		}
		return folders(t, d.Views())(step)
	})
	if want := byHand(t, dir, t.TempDir(), best); got != want {
		t.Errorf("got\n%s\nby hand\n%s", got, want)
	}
}

// TestInputFails: while an input has failed, those behind it wait and say so; once it goes on, so do they, and the
// pipeline, which had failed.
func TestInputFails(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	s := pipelineIn(t, dir, "")
	s.Retries = 2
	if err := os.Rename(filepath.Join(dir, "books"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	after, err := d.Submit(t.Context(), Submission{Key: "after", Config: text(t, "train.epochs=1"), Parent: dir, After: []int{j.ID}})
	if err != nil {
		t.Fatal(err)
	}
	words := stepID(t, d.Views(), "words")
	if v := d.await(t, j.ID); v.State != queue.Failed || v.Code() != 2 || !strings.Contains(v.Where, fmt.Sprintf("job %d (words) failed: ", words)) {
		t.Fatalf("the pipeline is %s with exit code %d: %s", v.State, v.Code(), v.Where)
	}
	if v, err := d.View(words); err != nil || v.Code() != 2 || len(v.Attempts) != 1 {
		t.Errorf("a text that is missing: %+v, %v", v.Attempts, err)
	}
	why := fmt.Sprintf("job %d (words) has failed: trainer jobs resume %d lets this job go on", words, words)
	for _, v := range d.Views() {
		if v.StepOf != nil && v.ID != words && (v.State != queue.Waiting || v.Where != why || v.Stuck != words) {
			t.Errorf("step %s is %s behind job %d: %s", v.Name, v.State, v.Stuck, v.Where)
		}
	}
	if v, err := d.View(after.ID); err != nil || v.State != queue.Waiting || !strings.Contains(v.Where, fmt.Sprintf("job %d (tune) has failed", j.ID)) {
		t.Errorf("the job behind the pipeline is %s: %s, %v", v.State, v.Where, err)
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "books")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Want(words, queue.Run); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{j.ID, after.ID} {
		if v := d.await(t, id); v.State != queue.Finished {
			t.Errorf("job %d is %s: %s", id, v.State, v.Where)
		}
	}
}

// TestCodeOf: what leads jobs that all failed in one way has their exit code.
func TestCodeOf(t *testing.T) {
	failed := func(code int) *queue.Job {
		return &queue.Job{State: queue.Failed, Attempts: []queue.Attempt{{Code: code}}}
	}
	for _, c := range []struct {
		causes []*queue.Job
		want   int
	}{
		{nil, 1}, {[]*queue.Job{failed(2)}, 2}, {[]*queue.Job{failed(2), failed(2)}, 2}, {[]*queue.Job{failed(2), failed(1)}, 1},
		{[]*queue.Job{failed(2), {State: queue.Cancelled}}, 1}, {[]*queue.Job{failed(0)}, 1},
	} {
		if got := codeOf(c.causes); got != c.want {
			t.Errorf("%d jobs: %d, expected %d", len(c.causes), got, c.want)
		}
	}
}

// TestInputIsDamaged: a file that is not what an input has made is not used, and what was made before stays unless it is
// something else.
func TestInputIsDamaged(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	s := pipelineIn(t, dir, "")
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out", "m.safetensors")
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	base, words := stepID(t, d.Views(), "base"), stepID(t, d.Views(), "words")
	if _, err := d.Want(base, queue.Pause); err != nil {
		t.Fatal(err)
	}
	file := tokenizerFile(d.await(t, words).Dir)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(whole, ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	resume := func(id int) {
		t.Helper()
		if _, err := d.Want(id, queue.Run); err != nil {
			t.Fatal(err)
		}
	}
	resume(base)
	if v := d.await(t, base); v.State != queue.Failed || !strings.Contains(v.Where, "is not any more what job") || v.Code() != 2 {
		t.Errorf("the step behind a damaged file is %s: %s", v.State, v.Where)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	resume(base)
	if v := d.await(t, j.ID); v.State != queue.Failed || !strings.Contains(v.Where, "there is something else of that name") {
		t.Errorf("the pipeline is %s: %s", v.State, v.Where)
	}
	if mine, err := os.ReadFile(out); err != nil || string(mine) != "mine" {
		t.Errorf("the file that was there is %q, %v", mine, err)
	}

	// An attempt that made the file and did not live to say so: the next one finds it.
	if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: folders(t, d.Views())("tuned")}, out); err != nil {
		t.Fatal(err)
	}
	resume(stepID(t, d.Views(), "model"))
	if v := d.await(t, j.ID); v.State != queue.Finished {
		t.Errorf("the pipeline is %s: %s", v.State, v.Where)
	}
}

// TestPipelineEnds: pause, cancel and rm of a pipeline reach its steps, also one that runs.
func TestPipelineEnds(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	s := pipelineIn(t, dir, "")
	s.Steps[2].Config = gptText(t, dir, "train.steps=20000")
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	base := stepID(t, d.Views(), "base")
	want := func(w queue.Wish, state queue.State) {
		t.Helper()
		d.until(t, base, func(v View) bool { return v.State == queue.Running && v.Step > 0 })
		if v, err := d.View(j.ID); err != nil || v.State != queue.Running || v.Where != fmt.Sprintf("jobs %d", base) {
			t.Errorf("the pipeline is %s: %s, %v", v.State, v.Where, err)
		}
		if _, err := d.Want(j.ID, w); err != nil {
			t.Fatal(err)
		}
		d.until(t, base, func(v View) bool { return v.State == state })
		for _, v := range d.Views() {
			if v.State != state && v.State != queue.Finished {
				t.Errorf("job %d (%s) is %s", v.ID, v.Name, v.State)
			}
		}
	}
	want(queue.Pause, queue.Paused)
	if _, err := d.Want(j.ID, queue.Run); err != nil {
		t.Fatal(err)
	}
	want(queue.Cancel, queue.Cancelled)
	if err := d.Remove(j.ID); err != nil || len(d.Views()) != 0 {
		t.Errorf("%v, %+v", err, d.Views())
	}
}

// TestPipelineSkips: a step begins with all weights of another one but those that it skips.
func TestPipelineSkips(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	j, err := d.Submit(t.Context(), Submission{
		Key: "skips", Name: "skips", Config: []byte("jobs: {}"), Parent: filepath.Join(dir, "runs"),
		Steps: []Step{
			{Name: "other", Config: text(t, "model.hidden=[32]", "train.epochs=1")},
			{Name: "mine", Config: text(t, "model.hidden=[48]", "train.epochs=1"), Inputs: []StepInput{{"other", queue.AsInit}}, Skip: []string{"layers.0.*", "*.weight"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, j.ID); v.State != queue.Finished {
		t.Fatalf("the pipeline is %s: %s", v.State, v.Where)
	}
	v, err := d.View(stepID(t, d.Views(), "mine"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(v.Dir, LogName))
	if want := "1 of 4 tensors; layers.0.*, *.weight left out as asked"; err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the log says %q, %v, want %q", log, err, want)
	}
}

// TestPipelineRefused: what can be checked is checked when a pipeline is submitted, and then nothing is queued.
func TestPipelineRefused(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	file, header := filepath.Join(dir, "other.safetensors"), `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} `
	if err := os.WriteFile(file, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+"\x00\x00\x80\x3f"...), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		change func(s *Submission)
		want   string
	}{
		"tokenizer": {func(s *Submission) { s.Steps[2].Config = text(t) }, "job base: "},
		"sweep":     {func(s *Submission) { s.Steps[2].Sweep = "sweep: {config: x, vary: {train.batch: [4, 0]}}" }, "train.batch"},
		"plan": {func(s *Submission) {
			s.Steps[3].Inputs, s.Steps[3].Config = nil, gptText(t, dir, "data.path="+filepath.Join(dir, "nowhere.txt"))
		}, "job tuned: "},
		"devices": {func(s *Submission) { s.Steps[2].Config = gptText(t, dir, "devices.use=cpu:3") }, "job base: .*needs 3 devices"},
		"weights": {func(s *Submission) {
			s.Steps = []Step{{Name: "other", Config: text(t, "model.hidden=[32]")}, {Name: "mine", Config: text(t), Inputs: []StepInput{{"other", queue.AsInit}}}}
		}, "job mine: the initial weights cannot be used: those of other do not fit the model: layers.0.bias is [32], the model has [128]; .*; and 3 more"},
		"skipped": {func(s *Submission) {
			s.Steps = []Step{{Name: "other", Config: text(t, "model.hidden=[32]")}, {Name: "mine", Config: text(t), Inputs: []StepInput{{"other", queue.AsInit}}, Skip: []string{"layers.0.*"}}}
		}, "job mine: the initial weights cannot be used: those of other do not fit the model: layers.1.bias is [10], the model has [64]; .*; and 1 more"},
		"skipped nothing": {func(s *Submission) {
			s.Steps = []Step{{Name: "other", Config: text(t)}, {Name: "mine", Config: text(t), Inputs: []StepInput{{"other", queue.AsInit}}, Skip: []string{"head.*"}}}
		}, "job mine: the initial weights cannot be used: skip: head.* is the name of no weight of the model, such as layers.0.weight"},
		"file": {func(s *Submission) {
			s.Steps = []Step{{Name: "mine", Config: text(t), Init: file}}
		}, "job mine: the initial weights cannot be used: .*does not fit the model"},
		"cycle":   {func(s *Submission) { s.Steps[2].Inputs = []StepInput{{"tuned", queue.AsInit}} }, "waits for itself"},
		"unknown": {func(s *Submission) { s.Steps[2].Inputs = []StepInput{{"word", queue.AsInit}} }, "there is no such"},
		"folder":  {func(s *Submission) { s.Steps[2].Name = "../x" }, "each needs a name of its own"},
		"twice":   {func(s *Submission) { s.Steps[2].Name = "words" }, "each needs a name of its own"},
		"both":    {func(s *Submission) { s.Steps[1].Config = text(t) }, "give one of the two"},
		"after":   {func(s *Submission) { s.After = []int{7} }, "no such job"},
	} {
		t.Run(name, func(t *testing.T) {
			s := pipelineIn(t, dir, "")
			s.Key = name
			x.change(&s)
			_, err := d.Submit(t.Context(), s)
			before, after, _ := strings.Cut(x.want, ".*")
			if err == nil || !strings.Contains(err.Error(), before) || !strings.Contains(err.Error(), after) {
				t.Errorf("got %v, expected %s", err, x.want)
			}
			if len(d.Views()) != 0 {
				t.Errorf("jobs are queued: %+v", d.Views())
			}
		})
	}
}

// TestWorkIsStopped: a job that learns, evaluates or exports and is to stop, at whatever moment, has not failed.
func TestWorkIsStopped(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	j, err := d.Submit(t.Context(), pipelineIn(t, dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, j.ID); v.State != queue.Finished {
		t.Fatal(v.Where)
	}
	for _, v := range d.Views() {
		if v.Work == nil {
			continue
		}
		for n := range 8 {
			k := newTask(d.Daemon, v.Job, []string{"cpu:0"})
			stopper := time.AfterFunc(time.Duration(n*n)*100*time.Microsecond, func() { k.cancel(errMoved) })
			if n == 0 {
				k.cancel(errMoved)
			}
			if r := k.train(); r.Err != nil {
				t.Errorf("%s, which is to stop, failed: %v", v.Name, r.Err)
			}
			stopper.Stop()
		}
	}
}

// TestPlannedInTurn: of many steps that wait for one tokenizer, one is planned at a time.
func TestPlannedInTurn(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	s := pipelineIn(t, dir, "")
	s.Steps = s.Steps[1:3]
	second := s.Steps[1]
	second.Name, second.Config = "second", gptText(t, dir, "seed=3")
	s.Steps = append(s.Steps, second)
	busy := func(p *planned) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.planned = p
	}
	busy(&planned{0, func(error) {}})
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for id := j.ID + 2; id <= j.ID+3; id++ {
		d.until(t, id, func(v View) bool { return v.Where == "its inputs are there: it is planned after job 0" })
	}
	time.Sleep(100 * time.Millisecond)
	for _, v := range d.Views() {
		if v.StepOf != nil && v.Work == nil && v.Unplanned == nil {
			t.Errorf("%s is planned out of turn", v.Name)
		}
	}
	busy(nil)
	d.wake()
	if v := d.await(t, j.ID); v.State != queue.Finished {
		t.Errorf("the pipeline is %s: %s", v.State, v.Where)
	}
}
