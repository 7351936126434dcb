package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is a run in a folder.
type run struct {
	config *configs.Config
	dir    string
}

// table is a run on a table of numbers, with classes.
func table(t testing.TB) run {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	return trained(t, rows, "data: {source: csv, path: FILE, label: kind}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 2, batch: 8}\n")
}

// book is a run on a text.
func book(t testing.TB) run {
	return trained(t, strings.Repeat("ten green bottles, and nine more; ", 60),
		"data: {source: text, path: FILE, context: 8}\nmodel: {preset: gpt, layers: 1, heads: 2, width: 8}\ntrain: {epochs: 1, batch: 16}\n")
}

// trained trains a config on a file of data.
func trained(t testing.TB, data, config string) run {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("test.yaml", []byte(strings.Replace(config, "FILE", file, 1)), configs.Overlay{Set: []string{"devices.use=cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	x := run{c, filepath.Join(dir, "run")}
	x.train(t, berth.TrainOptions{})
	return x
}

// train trains, or goes on.
func (x run) train(t testing.TB, o berth.TrainOptions) {
	t.Helper()
	r, err := berth.Open(t.Context(), x.config, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = x.dir
	_, err = r.Train(t.Context(), o)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}

// goOn trains the run for one more epoch.
func (x run) goOn(t testing.TB) {
	c := *x.config
	c.Train.Epochs++
	*x.config = c
	x.train(t, berth.TrainOptions{Resume: true, AllowChanged: true})
}

// predicted is the predictions for the samples of a file, without a server.
func (x run) predicted(t testing.TB, file string) []berth.Prediction {
	t.Helper()
	return x.predictedBy(t, berth.Weights{Dir: x.dir}, file)
}

// predictedBy is predicted with other weights than the run's best.
func (x run) predictedBy(t testing.TB, w berth.Weights, file string) (all []berth.Prediction) {
	t.Helper()
	m, err := berth.OpenTrained(t.Context(), x.config, w, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Predict(t.Context(), file, func(p berth.Prediction) error { all = append(all, p); return nil })
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return all
}

// open serves a run.
func open(t testing.TB, x run, o serve.OpenOptions) (*serve.Server, *client) {
	t.Helper()
	o.Config, o.Weights.Dir = x.config, x.dir
	if o.Log == nil {
		o.Log = func(text string) { t.Log(text) }
	}
	s, err := serve.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(s)
	h.Config = s.HTTP("")
	h.Start()
	c := &client{h.Client(), h.URL}
	t.Cleanup(func() {
		h.Close()
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// client asks a server.
type client struct {
	*http.Client
	url string
}

// do asks, and gives the status and the answer.
func (c *client) do(ctx context.Context, method, path, body string) (int, string, http.Header) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error(), nil
	}
	a, err := c.Do(r)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return a.StatusCode, string(b), a.Header
}

// until waits until the metrics have each of some lines.
func (c *client) until(t testing.TB, lines ...string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		_, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", "")
		if !slices.ContainsFunc(lines, func(l string) bool { return !strings.Contains(text, "\nberth_serve_"+l+"\n") }) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the metrics never have %q:\n%s", lines, text)
		}
	}
}

// post is do without surprises.
func (c *client) post(t testing.TB, path, body string, into any) {
	t.Helper()
	code, text, _ := c.do(t.Context(), http.MethodPost, path, body)
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

type predictions struct {
	Predictions []berth.Prediction
	Weights     berth.Used
}

// Answers are those that Trained.Predict gives for a file, for samples in any form.
func TestPredict(t *testing.T) {
	x := table(t)
	file := filepath.Join(t.TempDir(), "new.csv")
	if err := os.WriteFile(file, []byte("height,width\n120,7\n1.5e2,1\n99.5,-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := x.predicted(t, file)
	_, c := open(t, x, serve.OpenOptions{})
	var got predictions
	c.post(t, "/predict", `{"inputs": [[120, 7], {"width": 1, "height": 1.5e2}, [99.5,-3]], "timeout_ms": 20000}`, &got)
	if !slices.EqualFunc(got.Predictions, want, func(a, b berth.Prediction) bool {
		return a.Index == b.Index && *a.Class == *b.Class && a.Label == b.Label && a.Label != "" && slices.Equal(a.Values, b.Values)
	}) || got.Weights.ID == 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	code, text, _ := c.do(t.Context(), http.MethodGet, "/", "")
	if code != http.StatusOK || !strings.Contains(text, "the features height, width, or a list of these 2 numbers") || !strings.Contains(text, "cat, cow, dog") {
		t.Errorf("%d %s", code, text)
	}
}

// A sample of several axes may be nested lists, or one list; numbers to predict are in the
// unit of the data.
func TestShapesOfSamples(t *testing.T) {
	rows := "a,y\n" + strings.Repeat("1,1000\n2,2000\n3,3000\n", 8)
	line := trained(t, rows, "data: {source: csv, path: FILE, label: y, task: regression}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 30, batch: 8}\noptimizer: {name: adam, lr: 0.05}\ncheckpoint: {every: 1000}\n")
	_, c := open(t, line, serve.OpenOptions{})
	var got predictions
	c.post(t, "/predict", `{"inputs": [[2]]}`, &got)
	if p := got.Predictions[0]; p.Class != nil || len(p.Values) != 1 || p.Values[0] < 1500 || p.Values[0] > 2500 {
		t.Errorf("%+v", p)
	}
	digits, err := configs.Load("digits", configs.Overlay{Set: []string{"devices.use=cpu", "train.epochs=1"}})
	if err != nil {
		t.Fatal(err)
	}
	x := run{digits, t.TempDir()}
	x.train(t, berth.TrainOptions{MaxSteps: 1})
	_, c = open(t, x, serve.OpenOptions{})
	row := "[" + strings.Repeat("1, ", 7) + "0.5]"
	flat := strings.Repeat(row[1:len(row)-1]+", ", 7) + row[1:len(row)-1]
	nested := strings.Repeat(row+", ", 7) + row
	c.post(t, "/predict", `{"inputs": [[`+flat+`], [[`+nested+`]]]}`, &got)
	if p := got.Predictions; len(p) != 2 || !slices.Equal(p[0].Values, p[1].Values) {
		t.Errorf("%+v", p)
	}
	code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[[`+nested+`, [1]]]]}`)
	if code != http.StatusBadRequest || !strings.Contains(text, `"inputs[0][0][8]"`) {
		t.Errorf("%d %s", code, text)
	}
	for _, pixel := range []string{"300", "-0.6", "1.51"} {
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[`+pixel+flat[1:]+`]]}`)
		if code != http.StatusBadRequest || !strings.Contains(text, `"where":"inputs[0][0]","message":"`+pixel+` is no pixel: send a number from 0 to 1, which is a pixel from 0 to 16 divided by 16"`) {
			t.Errorf("%d %s", code, text)
		}
	}
	_, text, _ = c.do(t.Context(), http.MethodGet, "/", "")
	if !strings.Contains(text, "a list of 64 pixels from 0 to 1 (those from 0 to 16, divided by 16), or nested lists of shape [1, 8, 8]") ||
		!strings.Contains(text, "devices answer again on which an operation failed") {
		t.Errorf("GET /: %s", text)
	}
}

// The memory of requests is one number in GET / and in the metrics.
func TestMemoryIsOneNumber(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Memory: 64 << 20}})
	_, text, _ := c.do(t.Context(), http.MethodGet, "/", "")
	if !strings.Contains(text, "All requests together take at most 56.0 MiB of memory, and those of one client address at most 50% of that; connections take at most 8.0 MiB beside it.\n") {
		t.Error(text)
	}
	if _, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", ""); !strings.Contains(text, "berth_serve_memory_limit_bytes 5.8720256e+07\n") {
		t.Error(text)
	}
}

// Texts of any length are answered as Trained.Predict answers lines, with the programs that
// were compiled at the beginning.
func TestTextsOfAnyLength(t *testing.T) {
	data := ""
	for i := range 60 {
		data += fmt.Sprintf("{\"text\": \"%s\", \"kind\": \"%s\"}\n", strings.Repeat("ab "[:1+i%3], 1+i%5), []string{"a", "b"}[i%2])
	}
	const classes = "data: {source: lines, path: FILE, field: text, label: kind, buckets: [4, 8, 16]}\n" +
		"model: {layers: [{type: embedding, width: 8}, {type: mean, axes: [0]}, {type: dense, units: 2}]}\ntrain: {epochs: 1, batch: 8}\n"
	const next = "data: {source: lines, path: FILE, field: text, buckets: [4, 8, 16]}\nmodel: {preset: gpt, layers: 1, heads: 2, width: 8}\ntrain: {epochs: 1, batch: 8}\n"
	texts := []string{"a", "ab ab", "ab ab ab ab", "b", "aaaaaaa", "ab", "bb"}
	for _, config := range []string{classes, next} {
		x := trained(t, data, config)
		file, lines, inputs := filepath.Join(t.TempDir(), "new.jsonl"), "", []string{}
		for _, text := range texts {
			lines += fmt.Sprintf("{\"text\": %q}\n", text)
			inputs = append(inputs, fmt.Sprintf("%q", text))
		}
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		want := x.predicted(t, file)
		s, c := open(t, x, serve.OpenOptions{Service: berth.ServeOptions{Batch: 4}})
		var all, one predictions
		c.post(t, "/predict", `{"inputs": [`+strings.Join(inputs, ", ")+`]}`, &all)
		for i, p := range all.Predictions {
			c.post(t, "/predict", `{"inputs": [`+inputs[i]+`]}`, &one)
			alone := one.Predictions[0]
			if p.Index != i || *p.Class != *want[i].Class || p.Label != want[i].Label || !slices.Equal(p.Values, alone.Values) {
				t.Errorf("%q: %+v, alone %+v, want %+v", texts[i], p, alone, want[i])
			}
			for k, v := range want[i].Values {
				if d := p.Values[k] - v; d > 1e-5 || d < -1e-5 {
					t.Errorf("%q: value %d is %v, want %v", texts[i], k, p.Values[k], v)
				}
			}
		}
		if n := s.Stats().Programs; n != 3 || len(all.Predictions) != len(texts) {
			t.Errorf("%d programs for %d answers", n, len(all.Predictions))
		}
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": ["`+strings.Repeat("a", 16)+`"]}`)
		if code != http.StatusBadRequest || !strings.Contains(text, "it has 17 tokens") {
			t.Errorf("%d %s", code, text)
		}
	}
}

// An error says what is wrong, where, and what to do.
func TestMistakes(t *testing.T) {
	_, onTable := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Body: 1000, Samples: 3, Tokens: 50, Time: 5 * time.Second}})
	_, onFew := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Memory: 38286, Share: 100}})
	_, onText := open(t, book(t), serve.OpenOptions{Limits: serve.Limits{Tokens: 50}})
	_, onLines := open(t, trained(t, strings.Repeat("ab a\nb ba\n", 20), "data: {source: lines, path: FILE, buckets: [4, 8]}\n"+
		"model: {preset: gpt, layers: 1, heads: 2, width: 8}\ntrain: {epochs: 1, batch: 8}\n"), serve.OpenOptions{})
	_, onBothEnds := open(t, trained(t, strings.Repeat("ten green bottles\n", 20), "data: {source: text, path: FILE, context: 8}\n"+
		"model: {layers: [{type: embedding, width: 4}, {type: lstm, units: 4, bidirectional: true}, {type: dense, units: 14}]}\ntrain: {epochs: 1, batch: 16}\n"), serve.OpenOptions{})
	if _, text, _ := onBothEnds.do(t.Context(), http.MethodGet, "/", ""); strings.Contains(text, "/generate") {
		t.Errorf("GET / of a model that continues no texts:\n%s", text)
	}
	for _, x := range []struct {
		c                      *client
		request, body          string
		status                 int
		kind, where, inTheText string
	}{
		{onTable, "POST /predict", ``, 400, "json", "", "empty"},
		{onTable, "POST /predict", `{"inputs": [[1,2]]`, 400, "json", "", "ends too early"},
		{onTable, "POST /predict", `{"inputs": [[1,NaN]]}`, 400, "json", "byte 16", "not JSON"},
		{onTable, "POST /predict", `{"inputs": [[1,2]]} 3`, 400, "json", "byte 21", "something follows"},
		{onTable, "POST /predict", `[[1,2]]`, 400, "json", "", "the body is a list: send a JSON object"},
		{onTable, "POST /predict", "{\"inputs\": [[1,2]], \"a\": \"\xff\"}", 400, "json", "byte 27", "not UTF-8"},
		{onTable, "POST /predict", `{"input": [[1,2]]}`, 400, "json", "input", "there is no such key: there are inputs, timeout_ms"},
		{onTable, "POST /predict", `{}`, 400, "input", "inputs", "it is missing"},
		{onTable, "POST /predict", `{"inputs": []}`, 400, "input", "inputs", "the list is empty"},
		{onTable, "POST /predict", `{"inputs": 7}`, 400, "input", "inputs", "this is a number: send a list"},
		{onTable, "POST /predict", `{"inputs": [[1,2],[1]]}`, 400, "input", "inputs[1]", "1 of its 2 elements"},
		{onTable, "POST /predict", `{"inputs": [[1,2],[1,2,3]]}`, 400, "input", "inputs[1][2]", "too long"},
		{onTable, "POST /predict", `{"inputs": [[1,"2"]]}`, 400, "input", "inputs[0][1]", "this is a text: send a number"},
		{onTable, "POST /predict", `{"inputs": [[1,[[[2]]]]]}`, 400, "input", "inputs[0][1]", "this is a list: send a number"},
		{onTable, "POST /predict", `{"inputs": [[1,1e39]]}`, 400, "input", "inputs[0][1]", "too large"},
		{onTable, "POST /predict", `{"inputs": [{"height": 1}]}`, 400, "input", "inputs[0]", `"width" is missing: send each of height, width`},
		{onTable, "POST /predict", `{"inputs": [{"height": 1, "widht": 2}]}`, 400, "input", "inputs[0]", `"widht" is no column, and the row lacks "width"`},
		{onTable, "POST /predict", `{"inputs": [{"height": 1, "height": 2}]}`, 400, "input", "inputs[0]", "given twice"},
		{onTable, "POST /predict", `{"inputs": [[1,2],[1,2],[1,2],[1,2]]}`, 413, "limit", "inputs", "at most 3 samples"},
		{onTable, "POST /predict", `{"inputs": [` + strings.Repeat(" ", 1000) + `]}`, 413, "limit", "", "more than 1000"},
		{onTable, "POST /predict", `{"inputs": [[1,2]], "timeout_ms": 0}`, 400, "input", "timeout_ms", "from 1 to 5000"},
		{onTable, "POST /predict", `{"inputs": [[1,2]], "timeout_ms": 5001}`, 413, "limit", "timeout_ms", "from 1 to 5000"},
		{onTable, "POST /predict", `{"inputs": [[1,2]], "timeout_ms": 1e30}`, 400, "input", "timeout_ms", "from 1 to 5000"},
		{onTable, "POST /predict", `{"inputs": [[1,2]], "timeout_ms": "1"}`, 400, "input", "timeout_ms", "whole number from 1 to 5000"},
		{onFew, "POST /predict", `{"inputs": [[1,2],[1,2]]}`, 413, "limit", "inputs", "2 samples and their answers take 32.9 KiB of memory, and a request may take 32.7 KiB: send at most 1 "},
		{onTable, "POST /generate", `{"prompt": "a"}`, 404, "path", "", "does not continue texts"},
		{onTable, "GET /predict", ``, 405, "path", "", "GET /predict: send POST /predict"},
		{onTable, "GET /generate", ``, 404, "path", "", "there is POST /predict, POST /reload"},
		{onText, "GET /generate", ``, 405, "path", "", "GET /generate: send POST /generate"},
		{onText, "DELETE /", ``, 405, "path", "", "DELETE /: send GET /"},
		{onTable, "GET /favicon.ico", ``, 404, "path", "", "there is POST /predict, POST /reload"},
		{onText, "GET /favicon.ico", ``, 404, "path", "", "there is POST /predict, POST /generate, POST /reload"},
		{onText, "POST /predict", `{"inputs": ["ten"]}`, 400, "input", "inputs[0]", "3 tokens, and the model reads 8"},
		{onText, "POST /predict", `{"inputs": ["ten gréé"]}`, 400, "input", "inputs[0]", "é"},
		{onText, "POST /predict", `{"inputs": [[0,1,2,3,4,5,6,700]]}`, 400, "input", "inputs[0][7]", "700 is no id: send a whole number from 0 to "},
		{onText, "POST /predict", `{"inputs": [[0,1,2,3,4,5,6,1.5]]}`, 400, "input", "inputs[0][7]", "1.5 is no id"},
		{onText, "POST /predict", `{"inputs": [[-1,1,2,3,4,5,6,7]]}`, 400, "input", "inputs[0][0]", "-1 is no id"},
		{onText, "POST /generate", `{"prompt": "Ω"}`, 400, "input", "prompt", "Ω"},
		{onText, "POST /generate", `{"prompt": "ten", "top_p": 0}`, 400, "input", "top_p", "above 0"},
		{onText, "POST /generate", `{"prompt": "ten", "repetition_penalty": 0}`, 400, "input", "repetition_penalty", "it is 0: send a number from 0.01 to 100; 1 is none"},
		{onText, "POST /generate", `{"prompt": "ten", "repetition_penalty": "2"}`, 400, "input", "repetition_penalty", "a number from 0.01 to 100"},
		{onText, "POST /generate", `{"prompt": "ten", "top_k": -1}`, 400, "input", "top_k", "or 0 for all"},
		{onText, "POST /generate", `{"prompt": "ten", "stop": ["a\"{"], "prompt": "n"}`, 400, "json", "prompt", "given twice"},
		{onTable, "POST /predict", `{"inputs": [[1, 2], {"height": 1, "width": 2}], "Inputs": [[1, 2]]}`, 400, "json", "Inputs", "given twice"},
		{onLines, "POST /predict", `{"inputs": ["a", []]}`, 400, "input", "inputs[1]", "no tokens"},
		{onLines, "POST /predict", `{"inputs": [[0, -1]]}`, 400, "input", "inputs[0][1]", "-1 is no id"},
		{onBothEnds, "POST /generate", `{"prompt": "ten"}`, 404, "path", "", "does not continue texts"},
		{onText, "POST /generate", `{"prompt": ""}`, 400, "input", "prompt", "empty"},
		{onText, "POST /generate", `{"prompt": "ten", "messages": [{"role": "user", "content": "a"}]}`, 400, "input", "messages", "send one of the two"},
		{onText, "POST /generate", `{"messages": []}`, 400, "input", "messages", "it is empty: send a list of objects"},
		{onText, "POST /generate", `{"messages": [{"content": "a"}]}`, 400, "input", "messages[0].role", "it is missing or empty: send one"},
		{onText, "POST /generate", `{"messages": "a"}`, 400, "input", "messages", "this is a text: send a list of objects"},
		{onText, "POST /generate", `{"messages": [{"role": "user", "content": "a"}]}`, 400, "input", "messages", "the model has no chat template"},
		{onText, "POST /generate", `{"prompt": "ten", "tokens": 51}`, 413, "limit", "tokens", "1 to 50"},
		{onText, "POST /generate", `{"prompt": "ten", "tokens": 0}`, 400, "input", "tokens", "1 to 50"},
		{onText, "POST /generate", `{"prompt": "ten", "tokens": 1.5}`, 400, "input", "tokens", "from 1 to 50"},
		{onText, "POST /generate", `{"prompt": "ten", "top_k": 1e10}`, 400, "input", "top_k", "from 1 to 2147483647"},
		{onText, "POST /generate", `{"prompt": "ten", "temperature": -1}`, 400, "input", "temperature", "it is -1: send a number from 0"},
		{onText, "POST /generate", `{"prompt": "ten", "temperature": 1e300}`, 400, "input", "temperature", "it is 1e+300: send a number from 0 to 3.4e+38; 0 takes"},
		{onText, "POST /generate", `{"prompt": "ten", "temperature": null, "stop": [1]}`, 400, "input", "stop", "this is a list: send a list of texts"},
		{onText, "POST /generate", `{"prompt": "ten", "seed": -1}`, 400, "input", "seed", "a whole number from 0 to 18446744073709551615"},
		{onText, "POST /generate", `{"prompt": "ten", "stop": ["a", ""]}`, 400, "input", "stop[1]", "leave it out"},
		{onText, "POST /generate", `{"prompt": "ten", "stop": [null]}`, 400, "input", "stop[0]", "null"},
		{onText, "POST /generate", `{"prompt": "ten", "temperature": 1e999}`, 400, "input", "temperature", "from 0 to 3.4e+38"},
		{onText, "POST /generate", `{"prompt": "ten", "top_p": "1"}`, 400, "input", "top_p", "above 0, and at most 1"},
		{onTable, "POST /predict", `{"inputs": [{"height": null, "width": 1}]}`, 400, "input", "inputs[0].height", "this is null: send a number"},
		{onTable, "POST /predict", `{"inputs": [[1, 2], {"height": 1, "width": 1e99}]}`, 400, "input", "inputs[1].width", "beyond the range of float32"},
		{onTable, "POST /predict", `{"inputs": [{"height": 1, "width": 1}, [null, 2]]}`, 400, "input", "inputs[1][0]", "this is null: send a number"},
		{onTable, "POST /predict", `{"inputs": [[]]}`, 400, "input", "inputs[0]", "it is empty: send an object with the features height, width, or a list of these 2 numbers"},
		{onText, "POST /generate", `{"prompt": "ten green bottles"}`, 400, "input", "prompt", `shorten the prompt, or let the context slide, so that only the prompt's end is read ("slide": true)`},
	} {
		method, path, _ := strings.Cut(x.request, " ")
		code, text, _ := x.c.do(t.Context(), method, path, x.body)
		var got struct {
			Error struct{ Kind, Where, Message string }
		}
		err := json.Unmarshal([]byte(text), &got)
		if e := got.Error; err != nil || code != x.status || e.Kind != x.kind || e.Where != x.where || !strings.Contains(e.Message, x.inTheText) {
			t.Errorf("%s %.60s: %d %s", x.request, x.body, code, text)
		}
	}
}

// A method that a path does not have is refused with those that it has.
func TestMethods(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{})
	for _, x := range []struct{ method, path, allow string }{
		{http.MethodGet, "/predict", "POST"}, {http.MethodPut, "/predict", "POST"}, {http.MethodGet, "/reload", "POST"},
		{http.MethodPost, "/healthz", "GET, HEAD"}, {http.MethodPost, "/metrics", "GET, HEAD"}, {http.MethodPost, "/", "GET, HEAD"},
	} {
		code, text, header := c.do(t.Context(), x.method, x.path, "")
		if code != http.StatusMethodNotAllowed || header.Get("Allow") != x.allow || !strings.Contains(text, `{"error":{"kind":"path"`) {
			t.Errorf("%s %s: %d %v %s", x.method, x.path, code, header, text)
		}
	}
	c.until(t, `requests_total{path="/predict",code="405"} 2`, `requests_total{path="/healthz",code="405"} 1`, `requests_total{path="/",code="405"} 1`)
	if code, _, header := c.do(t.Context(), http.MethodGet, "/nothing", ""); code != http.StatusNotFound || header.Get("Allow") != "" {
		t.Errorf("a path that there is not: %d %v", code, header)
	}
	c.until(t, `requests_total{path="other",code="404"} 1`)
}

// A text is the one that Trained.Generate gives, whole or in events.
func TestGenerate(t *testing.T) {
	x := book(t)
	m, err := berth.OpenTrained(t.Context(), x.config, berth.Weights{Dir: x.dir}, berth.TrainedOptions{Text: true})
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	_, err = m.Generate(t.Context(), berth.GenerateOptions{Prompt: "ten", Tokens: 30, Temperature: 1, Seed: 4, Slide: true}, func(p berth.Piece) error { want += p.Text; return nil })
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	_, c := open(t, x, serve.OpenOptions{})
	const body = `{"prompt": "ten", "tokens": 30, "temperature": 1, "seed": 4, "slide": true`
	var got struct {
		Text   string
		Tokens int
		End    string
	}
	c.post(t, "/generate", body+"}", &got)
	if got.Text != want || got.Tokens != 30 || got.End != berth.EndTokens {
		t.Errorf("%+v, want %q", got, want)
	}
	code, text, header := c.do(t.Context(), http.MethodPost, "/generate", body+`, "stream": true}`)
	streamed, end := "", berth.Generation{}
	for _, event := range strings.Split(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(event, "\ndata: ")
		var p berth.Piece
		switch name {
		case "event: piece":
			err = json.Unmarshal([]byte(data), &p)
		case "event: end":
			err = json.Unmarshal([]byte(data), &end)
		default:
			err = fmt.Errorf("event %q", event)
		}
		if err != nil {
			t.Error(err)
		}
		streamed += p.Text
	}
	if code != http.StatusOK || streamed != want || end.Tokens != 30 || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d: %q, want %q; %+v", code, streamed, want, end)
	}
}

// A newer checkpoint that is worse answers only with --last, and is named as the newest.
func TestReloadChooses(t *testing.T) {
	x := table(t)
	for _, last := range []bool{false, true} {
		logged := make(chan string, 10)
		_, c := open(t, x, serve.OpenOptions{Follow: -1, Weights: berth.Weights{Last: last}, Log: func(text string) { logged <- text }})
		worse := *x.config
		worse.Optimizer.LR = 50
		run{&worse, x.dir}.goOn(t)
		x.config.Train.Epochs++
		var now struct {
			Changed bool
			Weights berth.Used
		}
		c.post(t, "/reload", "", &now)
		if now.Changed != last || now.Weights.Best == last {
			t.Errorf("last %v: %+v", last, now)
		}
		if last {
			if text := <-logged; !strings.HasSuffix(text, ", the newest") {
				t.Error(text)
			}
		}
	}
}

// A newer checkpoint is answered with once it is asked for, or found.
func TestReload(t *testing.T) {
	x := table(t)
	logged := make(chan string, 10)
	_, c := open(t, x, serve.OpenOptions{Follow: 5 * time.Millisecond, Log: func(text string) { logged <- text }})
	var before, after predictions
	const body = `{"inputs": [[120, 7]]}`
	c.post(t, "/predict", body, &before)
	x.goOn(t)
	if text := <-logged; !strings.HasPrefix(text, "answering with checkpoint") {
		t.Error(text)
	}
	c.post(t, "/predict", body, &after)
	if after.Weights.Step <= before.Weights.Step || slices.Equal(before.Predictions[0].Values, after.Predictions[0].Values) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	_, asked := open(t, x, serve.OpenOptions{Follow: -1})
	kept := filepath.Join(x.dir, "kept")
	if err := os.Rename(rundir.CheckpointPath(x.dir), kept); err != nil {
		t.Fatal(err)
	}
	if code, text, _ := asked.do(t.Context(), http.MethodPost, "/reload", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "no other checkpoint could be loaded") {
		t.Errorf("without checkpoints: %d %s", code, text)
	}
	if code, text, _ := asked.do(t.Context(), http.MethodGet, "/metrics", ""); code != http.StatusOK || !strings.Contains(text, "berth_serve_failed_reloads_total 1\n") {
		t.Errorf("without checkpoints: %d %s", code, text)
	}
	if text := <-logged; !strings.HasPrefix(text, "the checkpoints cannot be read: ") {
		t.Error(text)
	}
	time.Sleep(20 * time.Millisecond) // the follower looks again, and says nothing
	if len(logged) > 0 {
		t.Errorf("told twice: %s", <-logged)
	}
	asked.post(t, "/predict", body, &after)
	if err := os.Rename(kept, rundir.CheckpointPath(x.dir)); err != nil {
		t.Fatal(err)
	}
	x.goOn(t)
	var loaded struct {
		Changed bool
		Weights berth.Used
	}
	for _, changed := range []bool{true, false} {
		if asked.post(t, "/reload", "", &loaded); loaded.Changed != changed || loaded.Weights.Step <= after.Weights.Step {
			t.Errorf("%+v", loaded)
		}
	}
}

// A run that begins anew in the same folder gives the same IDs again, and its weights are newer ones.
func TestReloadOfARunThatBeganAnew(t *testing.T) {
	x := table(t)
	s, c := open(t, x, serve.OpenOptions{Follow: -1})
	var before, after predictions
	const body = `{"inputs": [[120, 7]]}`
	c.post(t, "/predict", body, &before)
	x.config.Seed++
	x.train(t, berth.TrainOptions{Fresh: true})
	for _, changed := range []bool{true, false} {
		var loaded struct{ Changed bool }
		if c.post(t, "/reload", "", &loaded); loaded.Changed != changed {
			t.Errorf("changed: %v, want %v", loaded.Changed, changed)
		}
	}
	c.post(t, "/predict", body, &after)
	if s.Used().ID != before.Weights.ID || slices.Equal(before.Predictions[0].Values, after.Predictions[0].Values) {
		t.Errorf("%+v, and before %+v", after, before)
	}
}

// Each time its device fails, a server answers 503, and loads the model again. The faults
// that were asked for and did not happen are told at the end.
func TestDeviceFailure(t *testing.T) {
	told := make(chan string, 100)
	asked := []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 3, Kind: fault.Lost}, {Device: "cpu:0", Op: fault.Launch, N: 6, Kind: fault.Fail}, {Device: "cpu:0", Op: fault.Launch, N: 1e6, Kind: fault.Fail}}
	s, c := open(t, table(t), serve.OpenOptions{Faults: asked, Log: func(text string) { told <- text }})
	failed, answered := 0, 0 // requests that reached the device
	for began := time.Now(); answered < 5 && time.Since(began) < time.Minute; {
		code, text, header := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`)
		switch {
		case code == http.StatusServiceUnavailable && header.Get("Retry-After") == "1" && strings.Contains(text, `"kind":"unavailable"`):
			failed++
			time.Sleep(time.Millisecond)
		case code != http.StatusOK:
			t.Fatalf("%d %s", code, text)
		default:
			answered++
		}
	}
	c.until(t, "repairs_total 2", "device_failures_total 2")
	if failed < 2 || answered < 5 {
		t.Errorf("%d requests failed, and %d were answered", failed, answered)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	const want = "the fault \"cpu:0 launch 1000000 fail\" did not happen: the last launch on cpu:0 was number 7"
	for text := ""; text != want; {
		select {
		case text = <-told:
		default:
			t.Fatal("the fault that did not happen is not told")
		}
	}
}

// A device that hangs fails the requests on it once its time is up. Until then, requests
// end with their own.
func TestHangingDevice(t *testing.T) {
	faults, err := fault.Parse("cpu:0 launch 1 hang")
	if err != nil {
		t.Fatal(err)
	}
	x := table(t)
	c := *x.config
	c.Devices.Timeout = 400 * time.Millisecond
	_, asked := open(t, run{&c, x.dir}, serve.OpenOptions{Faults: []fault.Fault{faults}})
	patient := make(chan int, 1)
	go func() {
		code, _, _ := asked.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`)
		patient <- code
	}()
	statuses := map[int]int{}
	for began := time.Now(); statuses[http.StatusOK] == 0 && time.Since(began) < time.Minute; {
		code, _, _ := asked.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]], "timeout_ms": 20}`)
		statuses[code]++
		time.Sleep(time.Millisecond)
	}
	failed := <-patient
	statuses[failed]++
	if failed != http.StatusServiceUnavailable || statuses[http.StatusGatewayTimeout] == 0 || statuses[http.StatusOK] == 0 || len(statuses) != 3 {
		t.Errorf("a request without a time of its own: %d; all statuses %v", failed, statuses)
	}
}

// damageNewest flips a bit of the newest checkpoint's weights.
func (x run) damageNewest(t *testing.T) {
	t.Helper()
	path := rundir.CheckpointPath(x.dir)
	found, err := rundir.Find(t.Context(), berth.Weights{Dir: x.dir, Last: true})
	if err != nil {
		t.Fatal(err)
	}
	largest := slices.MaxFunc(found.Snapshot.Tensors(), func(a, b checkpoint.Tensor) int { return cmp.Compare(a.Meta.Bytes(), b.Meta.Bytes()) })
	was := make([]byte, largest.Meta.Bytes())
	if err := errors.Join(found.Snapshot.Read(largest.Name, 0, was), found.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(b, was) {
		t.Fatalf("%s is not found in %s: %v", largest.Name, path, err)
	}
	for at := bytes.Index(b, was); at >= 0; at = bytes.Index(b, was) {
		b[at] ^= 1
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Weights in use stay where their checkpoint is damaged later, and no older one takes their
// place. The damage is told once, and for each request.
func TestDamagedCheckpointInUse(t *testing.T) {
	x := table(t)
	var told []string
	s, c := open(t, x, serve.OpenOptions{Follow: -1, Log: func(text string) { told = append(told, text) }})
	before := s.Used()
	x.damageNewest(t)
	var loaded struct{ Changed bool }
	c.post(t, "/reload", "", &loaded)
	if loaded.Changed || s.Used().ID != before.ID || len(told) != 1 || !strings.Contains(told[0], "damaged") {
		t.Errorf("changed: %v, used %+v, before %+v, told %q", loaded.Changed, s.Used(), before, told)
	}
	c.until(t, "failed_reloads_total 1")
	x.goOn(t)
	if c.post(t, "/reload", "", &loaded); !loaded.Changed || s.Used().Step <= before.Step {
		t.Errorf("a newer one: changed: %v, used %+v, before %+v", loaded.Changed, s.Used(), before)
	}
}

// Where the devices have no memory for two versions of the weights, the old ones give way.
// If the new ones cannot be loaded then, the old ones come back.
func TestReloadWithoutRoom(t *testing.T) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	x := trained(t, rows, "data: {source: csv, path: FILE, label: kind}\nmodel: {preset: mlp, hidden: [128, 128]}\ntrain: {epochs: 1, batch: 8}\n")
	c := *x.config
	c.Devices.Memory = configs.Memory{Bytes: 120 << 10}
	_, asked := open(t, run{&c, x.dir}, serve.OpenOptions{Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	const body = `{"inputs": [[120, 7]]}`
	var before, after predictions
	asked.post(t, "/predict", body, &before)
	x.goOn(t)
	ended := make(chan bool)
	var answers sync.WaitGroup
	for range 3 {
		answers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if code, text, _ := asked.do(t.Context(), http.MethodPost, "/predict", body); code != http.StatusOK {
					t.Errorf("meanwhile: %d %s", code, text)
				}
			}
		})
	}
	var loaded struct{ Changed bool }
	asked.post(t, "/reload", "", &loaded)
	close(ended)
	answers.Wait()
	asked.post(t, "/predict", body, &after)
	if !loaded.Changed || after.Weights.Step <= before.Weights.Step {
		t.Errorf("%+v: before %+v, after %+v", loaded, before.Weights, after.Weights)
	}
}

// A load that takes long, for other reasons than memory, goes on beside the old weights.
func TestSlowReload(t *testing.T) {
	x := table(t)
	var slow []fault.Fault
	for n := range 8 { // of them the first load has some, and the second
		slow = append(slow, fault.Fault{Device: "cpu:0", Op: fault.Compile, N: 1 + n, Kind: fault.Slow})
	}
	s, c := open(t, x, serve.OpenOptions{Follow: -1, Faults: slow, Service: berth.ServeOptions{Batch: 1}})
	x.goOn(t)
	before := s.Used()
	type result struct {
		code int
		text string
		took time.Duration
	}
	loaded := make(chan result, 1)
	go func() {
		began := time.Now()
		code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", "")
		loaded <- result{code, text, time.Since(began)}
	}()
	answers := 0
	for len(loaded) == 0 {
		if used := s.Used(); used.ID < before.ID {
			t.Fatalf("while the new weights are loaded, the server has %+v", used)
		}
		var p predictions
		if c.post(t, "/predict", `{"inputs": [[120, 7]]}`, &p); p.Weights.ID == before.ID {
			answers++
		}
	}
	if r := <-loaded; r.code != http.StatusOK || r.took < fault.SlowTime || s.Used().Step <= before.Step || answers == 0 {
		t.Errorf("%+v; %d answers with the old weights before %+v", r, answers, s.Used())
	}
}

// A client that does not send its request in time is not waited for.
func TestSlowClient(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Limits: serve.Limits{Client: 20 * time.Millisecond}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"inputs"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), "did not come within 20ms") {
		t.Errorf("%v: %s", err, answer)
	}
}

// Numbers have the text format of Prometheus: each line is a comment or a value, and
// counters add up to the requests.
func TestMetrics(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Service: berth.ServeOptions{Batch: 8}})
	for range 5 {
		c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7], [1, 2], [3, 4]]}`)
	}
	c.do(t.Context(), http.MethodPost, "/predict", `{}`)
	_, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", "")
	line := regexp.MustCompile(`^(# (HELP|TYPE) berth_serve_\w+ .+|berth_serve_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.e+-]+)$`)
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("line %q", l)
		}
	}
	for _, want := range []string{
		`requests_total{path="/predict",code="200"} 5`, `requests_total{path="/predict",code="400"} 1`, `errors_total{kind="input"} 1`,
		`request_seconds_count{path="/predict"} 6`, `batches_total{size="4"} 5`, `samples_total 15`, `queue_samples 0`, `programs_total 4`,
	} {
		if !strings.Contains(text, "berth_serve_"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A server that drains says so, and answers still; a closed one refuses.
func TestDrain(t *testing.T) {
	s, c := open(t, table(t), serve.OpenOptions{})
	const body = `{"inputs": [[120, 7]]}`
	status := func(method, path string) int {
		code, _, _ := c.do(t.Context(), method, path, body)
		return code
	}
	if code := status(http.MethodGet, "/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	s.Drain()
	if code := status(http.MethodGet, "/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("draining: healthz %d", code)
	}
	if code := status(http.MethodPost, "/predict"); code != http.StatusOK {
		t.Errorf("draining: predict %d", code)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if code := status(http.MethodPost, "/predict"); code != http.StatusServiceUnavailable {
		t.Errorf("closed: predict %d", code)
	}
}

// Too much at once, in the queue or of memory for answers, is refused with a time to come
// back, and a request whose time is up gets no answer.
func TestBusyAndLate(t *testing.T) {
	x := table(t)
	many := `{"inputs": [` + strings.Repeat("[120, 7], ", 1000) + `[1, 2]]`
	big := many + strings.Repeat(" ", 500_000)
	const memory = 2_400_000 // bytes: one of these requests takes 1,350,000 before it is read
	for what, o := range map[string]serve.OpenOptions{
		"too many requests wait":                {Service: berth.ServeOptions{Batch: 1, Queue: 2}, Limits: serve.Limits{Share: 100}},
		"take all memory":                       {Service: berth.ServeOptions{Batch: 1, Queue: 100_000}, Limits: serve.Limits{Memory: memory, Share: 100}},
		"your address has 1 requests under way": {Service: berth.ServeOptions{Batch: 1}, Limits: serve.Limits{Requests: 1}},
	} {
		_, c := open(t, x, o)
		var clients sync.WaitGroup
		var answered, refused atomic.Int32
		for range 6 {
			clients.Go(func() {
				for range 4 { // while the first requests are parsed, nothing waits yet
					if answered.Load() > 0 && refused.Load() > 0 {
						return
					}
					switch code, text, header := c.do(t.Context(), http.MethodPost, "/predict", big+"}"); {
					case code == http.StatusOK:
						answered.Add(1)
					case code == http.StatusServiceUnavailable && header.Get("Retry-After") == "1" && strings.Contains(text, `"kind":"busy"`) && strings.Contains(text, what):
						refused.Add(1)
					default:
						t.Errorf("%s: %d %s", what, code, text)
					}
				}
			})
		}
		clients.Wait()
		if answered.Load() == 0 || refused.Load() == 0 {
			t.Errorf("%s: %d requests were answered, and %d refused", what, answered.Load(), refused.Load())
		}
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", many+`, "timeout_ms": 3}`); code != http.StatusGatewayTimeout || !strings.Contains(text, `"kind":"time"`) {
			t.Errorf("%s: %d %s", what, code, text)
		}
		c.until(t, "queue_samples 0", "memory_bytes 0") // the late request has left nothing
	}
}

// A result that is not finite is told in words of the model, without those of its tasks.
func TestResultThatIsNotFinite(t *testing.T) {
	x := trained(t, "a,b,y\n"+strings.Repeat("1,3,x\n2,1,z\n", 8), "data: {source: csv, path: FILE, label: y, standardize: false}\n"+
		"model: {layers: [{type: exp, name: boom}, {type: dense, units: 2}]}\ntrain: {epochs: 1, batch: 8}\n")
	c := *x.config
	c.Devices.OpByOp = configs.OpByOpPlain
	_, asked := open(t, run{&c, x.dir}, serve.OpenOptions{})
	code, text, _ := asked.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[1, 1], [300, 1]]}`)
	if code != http.StatusUnprocessableEntity || !strings.Contains(text, `{"kind":"input","where":"inputs","message":"layer 0 (exp \"boom\") has a result that is not finite: `) || strings.Contains(text, "cpu:0") {
		t.Errorf("%d %s", code, text)
	}
}

// A program may give a server that cannot be.
func TestOptionsThatCannotBe(t *testing.T) {
	x := table(t)
	for name, o := range map[string]serve.OpenOptions{
		"no config": {}, "no memory for an answer": {Config: x.config, Weights: berth.Weights{Dir: x.dir}, Limits: serve.Limits{Memory: 30000, Share: 100}}, "a share beyond all": {Config: x.config, Limits: serve.Limits{Share: 101}}, "a negative limit": {Config: x.config, Limits: serve.Limits{Body: -1}}, "a negative batch": {Config: x.config, Weights: berth.Weights{Dir: x.dir}, Service: berth.ServeOptions{Batch: -1}},
	} {
		if s, err := serve.Open(t.Context(), o); !errors.Is(err, serve.ErrOptions) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	limited := *x.config
	limited.Devices.Memory = configs.Memory{Percent: 60}
	_, c := open(t, run{&limited, x.dir}, serve.OpenOptions{})
	if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`); code != http.StatusOK {
		t.Errorf("with a percentage of memory: %d %s", code, text)
	}
}

// A reload that fails while no weights are loaded says so.
func TestReloadWhileModelIsBroken(t *testing.T) {
	x := table(t)
	told := make(chan string, 100)
	_, c := open(t, x, serve.OpenOptions{Faults: []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 1, Kind: fault.Lost}}, Follow: -1, Log: func(text string) { told <- text }})
	if err := os.Remove(rundir.CheckpointPath(x.dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/predict", "/reload"} {
		if code, text, _ := c.do(t.Context(), http.MethodPost, path, `{"inputs": [[120, 7]]}`); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	for text := ""; !strings.HasPrefix(text, "the checkpoints cannot be read: "); {
		select {
		case text = <-told:
		default:
			t.Fatal("the failed reload is not told")
		}
		if strings.Contains(text, "answering with") {
			t.Error(text)
		}
	}
}

// While a lost device's model cannot be loaded, a reload waits no longer than its client,
// and the server can be closed.
func TestCloseWhileModelIsBroken(t *testing.T) {
	faults, err := fault.Parse("cpu:0 launch 9 lost")
	if err != nil {
		t.Fatal(err)
	}
	x, other := table(t), book(t)
	replace := func() {
		b, err := os.ReadFile(rundir.CheckpointPath(other.dir))
		if err == nil {
			err = os.WriteFile(rundir.CheckpointPath(x.dir), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, c := open(t, x, serve.OpenOptions{Faults: []fault.Fault{faults}, Follow: 5 * time.Millisecond, Log: func(string) {}})
	replace()
	for code := http.StatusOK; code == http.StatusOK; {
		code, _, _ = c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`)
	}
	other.goOn(t)
	replace()
	time.Sleep(50 * time.Millisecond) // the follower waits for the repair
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c.do(soon, http.MethodPost, "/reload", "")
	c.until(t, "requests_under_way 1") // for the metrics: the reload waits no more
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("the server does not close")
	}
}
