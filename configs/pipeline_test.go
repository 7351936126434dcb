package configs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// pipelineFolder is the working folder of a test, with the files of a pipeline in its folder sub.
func pipelineFolder(t *testing.T) (sub string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, folder := range []string{"sub/books", "sub/old"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sub/gpt.yaml", "sub/small.yaml", "sub/held.txt", "sub/base", "sub/w.safetensors", "sub/t.json"} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "sub")
}

// TestPipeline: each kind of job, with what is an input, what is a path, and what is neither.
func TestPipeline(t *testing.T) {
	sub := pipelineFolder(t)
	p, err := ParsePipeline("sub/tune.yaml", []byte(`jobs:
  words: {tokenizer: [books/, builtin:shakespeare], vocab: 300, field: text}
  base:
    sweep: {config: gpt.yaml, vary: {optimizer.lr: "log:1e-4..1e-2"}, trials: 8}
    set: {data.tokenizer: words, train.epochs: 3}
  tuned: {train: small.yaml, init: base, set: {data.tokenizer: ./t.json, data.path: ./base}}
  digits: {train: digits, init: "w.safetensors:model."}
  head: {train: digits, init: {file: tuned, skip: [head.*, "*.bias"]}}
  char: {eval: tuned, set: {data.path: held.txt}}
  gpt2: {eval: old}
  model: {export: tuned, format: hf, out: out/model}
  weights: {export: old, out: w2.safetensors}
  plain: {train: small.yaml, set: {data.tokenizer: char, optimizer: sgd}}
`))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(sub, name) }
	want := []Step{
		{Name: "words", Kind: StepTokenizer, Texts: []string{in("books"), "builtin:shakespeare"}, Vocab: 300, Field: "text"},
		{Name: "base", Kind: StepSweep, Set: []Setting{{"train.epochs", "3"}}, Inputs: []StepInput{{Name: "words", As: InputTokenizer}}},
		{
			Name: "tuned", Kind: StepTrain, Config: filepath.Join("sub", "small.yaml"), Set: []Setting{{"data.tokenizer", in("t.json")}, {"data.path", in("base")}},
			Inputs: []StepInput{{Name: "base", As: InputInit}},
		},
		{Name: "digits", Kind: StepTrain, Config: "digits", Init: in("w.safetensors:model.")},
		{Name: "head", Kind: StepTrain, Config: "digits", Skip: []string{"head.*", "*.bias"}, Inputs: []StepInput{{Name: "tuned", As: InputInit}}},
		{Name: "char", Kind: StepEval, Set: []Setting{{"data.path", in("held.txt")}}, Inputs: []StepInput{{Name: "tuned", As: InputRun}}},
		{Name: "gpt2", Kind: StepEval, Run: in("old")},
		{Name: "model", Kind: StepExport, Format: "hf", Out: in("out/model"), Inputs: []StepInput{{Name: "tuned", As: InputRun}}},
		{Name: "weights", Kind: StepExport, Format: "safetensors", Run: in("old"), Out: in("w2.safetensors")},
		{Name: "plain", Kind: StepTrain, Config: filepath.Join("sub", "small.yaml"), Set: []Setting{{"data.tokenizer", "char"}, {"optimizer", "sgd"}}},
	}
	if s := p.Jobs[1].Sweep; s == nil || s.Config != filepath.Join("sub", "gpt.yaml") || s.Strategy != StrategyHalton || s.Total() != 8 {
		t.Errorf("the sweep is %+v", s)
	}
	for i := range p.Jobs {
		s := &p.Jobs[i]
		s.Pos, s.Sweep = Pos{}, nil
		for j := range s.Inputs {
			s.Inputs[j].Pos = Pos{}
		}
		if i >= len(want) || !reflect.DeepEqual(*s, want[i]) {
			t.Errorf("got %+v", *s)
		}
	}
	if len(p.Jobs) != len(want) {
		t.Errorf("%d jobs, expected %d", len(p.Jobs), len(want))
	}
}

// TestPipelineRefused: each mistake has its line, and says what is expected.
func TestPipelineRefused(t *testing.T) {
	pipelineFolder(t)
	const words, base = "  words: {tokenizer: books/}\n", "  base: {train: small.yaml}\n"
	for _, x := range []struct{ jobs, want string }{
		{"  a: {trian: small.yaml}\n", `sub/tune.yaml:2: jobs.a: nothing says what the job does: give one of the keys train, sweep, tokenizer, eval, export; did you mean "train"?`},
		{"  a: small.yaml\n", `:2: jobs.a: got "small.yaml", expected a mapping with one of the keys`},
		{base + "  a: {train: small.yaml, eval: base}\n", `:3: jobs.a: train and eval exclude each other`},
		{"  a: {train: small.yaml, inti: w.safetensors}\n", `:2: jobs.a.inti: unknown key; did you mean "init"?`},
		{"  a: {tokenizer: books/, vocab: 9}\n", `:2: jobs.a.vocab: got 9, expected a whole number from 257`},
		{"  a/b: {train: small.yaml}\n", `:2: jobs.a/b: expected a name of letters`},
		{base + base, `:3: jobs.base: given twice, first on line 2`},
		{base + "  a: {train: small.yaml, init: {file: base, skp: [head.*]}}\n", `:3: jobs.a.init.skp: unknown key; did you mean "skip"?`},
		{base + "  a: {train: small.yaml, init: {file: base}}\n", `:3: jobs.a.init: `},
		{base + "  a: {train: small.yaml, init: {file: bse, skip: [head.*]}}\n", `:3: jobs.a.init.file: bse is neither a job of this file nor a safetensors file; did you mean "base"?`},
		{base + "  a: {train: small.yaml, init: bse}\n", `:3: jobs.a.init: bse is neither a job of this file nor a safetensors file; did you mean "base"?`},
		{base + "  a: {eval: bse}\n", `:3: jobs.a.eval: bse is neither a job of this file nor a run folder; did you mean "base"?`},
		{words + "  a: {train: small.yaml, set: {data.tokenizer: wrds}}\n", `:3: data.tokenizer: wrds is neither a job of this file nor a file; did you mean "words"?`},
		{"  a: {train: small.yaml, set: {data.path: nowhere.txt}}\n", `:2: data.path: nowhere.txt is neither a job of this file nor a file`},
		{"  a: {tokenizer: boks/}\n", `:2: jobs.a.tokenizer: boks/ is neither a job of this file nor a file or folder of text`},
		{words + "  a: {train: small.yaml, init: words}\n", `:3: jobs.a: job words is of kind tokenizer, which gives no weights to begin with; a file of that name is ./words`},
		{words + "  a: {eval: words}\n", `job words is of kind tokenizer, which gives no run`},
		{base + "  a: {train: small.yaml, set: {data.tokenizer: base}}\n", `job base is of kind train, which gives no tokenizer; a file of that name is ./base`},
		{base + "  a: {train: base}\n", `job base is of kind train, which gives no config`},
		{base + "  a: {sweep: {config: base, vary: {seed: [1, 2]}}}\n", `job base is of kind train, which gives no config`},
		{base + "  a: {tokenizer: base}\n", `job base is of kind train, which gives no text`},
		{words + "  a: {train: small.yaml, set: {data.path: words}}\n", `job words is of kind tokenizer, which gives no file for this key`},
		{words + "  a: {train: small.yaml, set: {data.path: [held.txt, words]}}\n", `job words is of kind tokenizer, which gives no file for this key`},
		{words + base + "  a: {eval: base, set: {data.tokenizer: words}}\n", `job words is of kind tokenizer, which gives no file for this key`},
		{words + "  a: {sweep: {config: small.yaml, vary: {data.tokenizer: [words, char]}}}\n", `:3: data.tokenizer: words is a job, and all trials have the same inputs: give it in set`},
		{base + "  s: {eval: base}\n  a: {train: small.yaml, init: s}\n", `:4: jobs.a: job s is of kind eval, which gives no weights`},
		{base + "  s: {eval: base, set: {data.columns: {}}}\n", `:3: data.columns: belongs to the model`},
		{"  a: {train: small.yaml, init: b}\n  b: {train: small.yaml, init: c}\n  c: {train: small.yaml, init: b}\n", `:4: jobs.c: a cycle: b waits for c waits for b; none of them could begin`},
		{"  a: {train: small.yaml, init: a}\n", `:2: jobs.a: a cycle: a waits for a`},
		{"  a: {train: small.yaml, set: {train.epoch: 3}}\n", `:2: train.epoch: the config has no such key; did you mean "train.epochs"?`},
		{"  a: {train: small.yaml, set: {train.epochs: 0}}\n", `:2: train.epochs: got 0, expected`},
		{"  a: {sweep: {config: small.yaml, vary: {train.batch: 4..8}}}\n", `:2: jobs.a.sweep.trials: missing`},
		{"  a: {sweep: {config: small.yaml, vary: {train.batch: [4]}, trails: 3}}\n", `:2: jobs.a.sweep.trails: unknown key; did you mean "trials"?`},
		{"  char: {tokenizer: books/}\n", `:2: jobs.char: data.tokenizer: char is another tokenizer: give the job another name`},
		{base + "  m: {export: base, out: m.pt}\n", `:3: jobs.m.out: no format ends in .pt: give format, one of safetensors, onnx, hf`},
		{base + "  m: {export: base, format: pt, out: m}\n", `:3: jobs.m.format: got "pt", expected one of safetensors, onnx, hf`},
		{base + "  m: {export: base, out: held.txt, format: hf}\n", `:3: jobs.m.out: held.txt is there already`},
		{base + "  m: {export: base}\n", `:3: jobs.m.out: missing`},
		{base + "  m: {export: base, out: m.onnx}\n  n: {export: base, out: ./m.onnx}\n", `:4: jobs.n.out: job m writes there, too`},
	} {
		_, err := ParsePipeline("sub/tune.yaml", []byte("jobs:\n"+x.jobs))
		if err == nil || !strings.Contains(filepath.ToSlash(err.Error()), x.want) {
			t.Errorf("%sgot  %v\nwant %s", x.jobs, err, x.want)
		}
	}
	for text, want := range map[string]string{"jobs: {}\n": "expected jobs by their names", "jobs: {a: {train: small.yaml}}\njbos: 1\n": `sub/tune.yaml:2: jbos: unknown key; did you mean "jobs"?`} {
		if _, err := ParsePipeline("sub/tune.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if IsPipeline([]byte("model: {}\n")) || !IsPipeline([]byte("jobs: 3\n")) {
		t.Error("a file with the key jobs is a pipeline, and no other")
	}
}

// FuzzParsePipeline: no text ends the program, each mistake is an [Error], and what is accepted has inputs that are there.
func FuzzParsePipeline(f *testing.F) {
	for _, text := range []string{
		"jobs:\n  a: {tokenizer: ., vocab: 300}\n  b: {sweep: {config: digits, vary: {seed: [1, 2]}}, set: {data.tokenizer: a}}\n  c: {train: digits, init: b}\n  d: {eval: c}\n  e: {export: d, out: x}\n",
		"jobs: {a: {train: [x], init: }, b: 3, c: {sweep: 3}, d: {sweep: {vary: [1, [a]]}}, e: {set: {data.path: [a, {b: c}]}, eval: a}}\n",
		"jobs: &a {a: *a}\n", "jobs: {? [a] : b}\n", "jobs: {a: {train: a, set: {model: }}}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePipeline("f.yaml", []byte(text))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, s := range p.Jobs {
			for _, in := range s.Inputs {
				if of := p.Step(in.Name); of == nil || !gives(of.Kind, in.As) {
					t.Errorf("%q: job %s has the input %+v", text, s.Name, in)
				}
			}
		}
	})
}
