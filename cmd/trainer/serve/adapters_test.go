package serve_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/testall"
)

// bottles are the data and config of a model of text.
var bottles = strings.Repeat("ten green bottles, and nine more; ", 60)

const bottlesConfig = "data: {source: text, path: FILE, context: 8, tokenizer: bytes}\nmodel: {preset: gpt, layers: 1, heads: 2, width: 8}\ntrain: {epochs: 1, batch: 16}\n"

// The config of a table's model, whose batchnorm goes on beside an adapter.
const catsConfig = "data: {source: csv, path: FILE, label: kind}\n" +
	"model: {layers: [{type: dense, name: in, units: 8}, {type: batchnorm}, {type: relu}, {type: dense, name: out, units: 3}]}\ntrain: {epochs: 2, batch: 8}\n"

// beside trains an adapter of a config beside a file of weights.
func beside(t testing.TB, config, base, data, lora string) run {
	t.Helper()
	x := run{dir: filepath.Join(t.TempDir(), "run")}
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	x.config, err = configs.Parse("test.yaml", []byte(strings.Replace(config, "FILE", file, 1)+"adapt: {lora: "+lora+"}\noptimizer: {lr: 0.5}\n"), configs.Overlay{Set: []string{"devices.use=cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	x.train(t, berth.TrainOptions{Init: base})
	return x
}

// exported is a run's weights in a file.
func exported(t testing.TB, x run) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "base.safetensors")
	if _, err := berth.ExportSafetensors(t.Context(), berth.Weights{Dir: x.dir}, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// adapter is a run by a name.
func (x run) adapter(name string) berth.Adapter {
	return berth.Adapter{Name: name, Config: x.config, Weights: berth.Weights{Dir: x.dir}}
}

// openAdapters serves adapters.
func openAdapters(t testing.TB, o serve.OpenOptions) (*serve.Server, *client) {
	t.Helper()
	if o.Log == nil {
		o.Log = func(text string) { t.Log(text) }
	}
	s, err := serve.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &client{h.Client(), h.URL}
}

// continued is a text that a run continues alone.
func continued(t testing.TB, c *configs.Config, w berth.Weights, prompt string) (text string) {
	t.Helper()
	m, err := berth.OpenTrained(t.Context(), c, w, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), berth.GenerateOptions{Prompt: prompt, Tokens: 20, Temperature: 0.8, Seed: 3, Slide: true}, func(p berth.Piece) error { text += p.Text; return nil })
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	return text
}

// Adapters that are asked at once, and their base, answer as each alone. The base is on the
// device once.
func TestAdapters(t *testing.T) {
	testall.Long(t)
	first := trained(t, bottles, bottlesConfig)
	base := exported(t, first)
	a := beside(t, bottlesConfig, base, bottles, "{rank: 3, alpha: 6, targets: [attn.*, c_fc]}")
	b := beside(t, strings.Replace(bottlesConfig, "epochs: 1", "epochs: 2", 1), base, strings.Repeat("one red door; ", 90), "{rank: 2, alpha: 8, targets: [c_proj], dropout: 0.1}")
	want := map[string]string{
		"a": continued(t, a.config, berth.Weights{Dir: a.dir}, "ten"),
		"b": continued(t, b.config, berth.Weights{Dir: b.dir}, "ten"),
		"":  continued(t, first.config, berth.Weights{Dir: first.dir}, "ten"),
	}
	if want["a"] == want["b"] || want["a"] == want[""] || want["b"] == want[""] {
		t.Fatalf("the adapters do not differ: %q", want)
	}
	s, c := openAdapters(t, serve.OpenOptions{Adapters: []berth.Adapter{a.adapter("a"), b.adapter("b")}, Service: berth.ServeOptions{Texts: 2, Batch: 4}})

	// Predictions of each, alone.
	alone := map[string]string{}
	predict := func(name string) string {
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": ["ten gree", "en green"], "adapter": "`+name+`"}`)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", name, code, text)
		}
		return text
	}
	for name := range want {
		alone[name] = predict(name)
	}
	if alone["a"] == alone["b"] || alone["a"] == alone[""] {
		t.Errorf("the adapters predict the same: %v", alone)
	}
	var all sync.WaitGroup
	for range 3 {
		for name := range want {
			all.Go(func() {
				code, text, _ := c.do(t.Context(), http.MethodPost, "/generate", `{"prompt": "ten", "tokens": 20, "seed": 3, "slide": true, "adapter": "`+name+`"}`)
				var got struct{ Text string }
				if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusOK || got.Text != want[name] {
					t.Errorf("%s: %d %s, want %q", name, code, text, want[name])
				}
			})
			all.Go(func() {
				if got := predict(name); got != alone[name] {
					t.Errorf("%s: %s, want %s", name, got, alone[name])
				}
			})
		}
	}
	all.Wait()

	for path, wanted := range map[string]string{"/generate?adapter=a": want["a"], "/generate?adapter=b": want["b"], "/generate?adapter=": want[""]} {
		var got struct{ Text string }
		if c.post(t, path, `{"prompt": "ten", "tokens": 20, "seed": 3, "slide": true}`, &got); got.Text != wanted {
			t.Errorf("%s: %q, want %q", path, got.Text, wanted)
		}
	}
	if code, text, _ := c.do(t.Context(), http.MethodPost, "/generate?adapter=a", `{"prompt": "ten", "adapter": "b"}`); code != http.StatusBadRequest || !strings.Contains(text, "the request asks for two") {
		t.Errorf("%d %s", code, text)
	}

	total := int64(0)
	for _, p := range s.Parts() {
		total += p.Bytes
	}
	if got := s.Stats().WeightBytes; got != total || s.Parts()[0].Bytes < total/2 {
		t.Errorf("%d bytes of weights were copied in, the plan has %d: %+v", got, total, s.Parts())
	}
	for request, wanted := range map[string]string{
		`{"prompt": "a", "adapter": "c"}`: `there is no adapter \"c\": send a, b, or leave it out for the base`,
		`{"prompt": "a", "adapter": 7}`:   `this is the number 7: send a text`,
	} {
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/generate", request); code != http.StatusBadRequest || !strings.Contains(text, wanted) {
			t.Errorf("%s: %d %s", request, code, text)
		}
	}
	if code, text, _ := c.do(t.Context(), http.MethodGet, "/", ""); code != http.StatusOK || !strings.Contains(text, "  b: checkpoint ") || !strings.Contains(text, "on the devices, once, and those of the adapters") {
		t.Errorf("%d %s", code, text)
	}

	// Another base, another model on that base, and names that are no names are refused.
	other := trained(t, bottles, bottlesConfig+"seed: 2\n")
	c2 := beside(t, bottlesConfig, exported(t, other), bottles, "{rank: 3, alpha: 6, targets: [c_fc]}")
	heads := beside(t, strings.Replace(bottlesConfig, "heads: 2", "heads: 4", 1), base, bottles, "{rank: 3, alpha: 6, targets: [c_fc]}")
	for text, list := range map[string][]berth.Adapter{
		"beside those with SHA-256":         {a.adapter("a"), c2.adapter("c")},
		"but other models with it":          {a.adapter("a"), heads.adapter("h")},
		"are both named \"a\"":              {a.adapter("a"), b.adapter("a")},
		"has no name":                       {a.adapter("")},
		"has a control character":           {a.adapter("a\tb")},
		"or is no UTF-8":                    {a.adapter("a\xff")},
		"has no adapter: name runs":         {first.adapter("first")},
		"has those of a checkpoint":         {{Name: "a", Config: a.config, Weights: berth.Weights{Dir: a.dir, Init: base}}},
		"the adapter b has no config: give": {a.adapter("a"), {Name: "b"}},
		"needs an adapter with the config":  {},
	} {
		_, err := serve.Open(t.Context(), serve.OpenOptions{Adapters: list})
		if !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.Remove(base); err != nil {
		t.Fatal(err)
	}
	if _, err := serve.Open(t.Context(), serve.OpenOptions{Adapters: []berth.Adapter{a.adapter("a")}}); err == nil || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("without the base: %v", err)
	}
}

// Adapters of a table's model read what their own data was like, and have batchnorm's averages of
// their own. Newer checkpoints are followed, and a device that fails is opened anew.
func TestAdaptersOfTables(t *testing.T) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	taller := "height,width,kind\n" + strings.Repeat("200,30,cat\n320,17,dog\n450,31,cow\n", 8)
	first := trained(t, rows, catsConfig)
	base := exported(t, first)
	a := beside(t, catsConfig, base, rows, "{rank: 2, alpha: 4, targets: [in, out]}")
	b := beside(t, catsConfig, base, taller, "{rank: 1, alpha: 4, targets: [out]}")
	file := filepath.Join(t.TempDir(), "new.csv")
	if err := os.WriteFile(file, []byte("height,width\n120,7\n210,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	drill, err := fault.Parse("cpu:0 launch 12 lost")
	if err != nil {
		t.Fatal(err)
	}
	newest := b.adapter("b")
	newest.Weights.Last = true
	_, c := openAdapters(t, serve.OpenOptions{Adapters: []berth.Adapter{a.adapter("a"), newest}, Follow: time.Millisecond, Service: berth.ServeOptions{Batch: 2}, Faults: []fault.Fault{drill}})
	check := func(name string, want []berth.Prediction) (code int) {
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7], [210, 1]], "adapter": "`+name+`"}`)
		if code != http.StatusOK {
			return code
		}
		var got predictions
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.Predictions, want, func(x, y berth.Prediction) bool {
			return *x.Class == *y.Class && x.Label == y.Label && reflect.DeepEqual(x.Values, y.Values)
		}) {
			t.Errorf("adapter %q: %+v, want %+v", name, got.Predictions, want)
		}
		return code
	}
	wantA, wantB, wantBase := a.predicted(t, file), b.predictedBy(t, newest.Weights, file), first.predicted(t, file)
	failed := 0
	for range 8 {
		for name, want := range map[string][]berth.Prediction{"a": wantA, "b": wantB, "": wantBase} {
			if code := check(name, want); code != http.StatusOK {
				failed++
			}
		}
		c.until(t, fmt.Sprintf("repairs_total %d", min(failed, 1)))
	}
	if failed != 1 {
		t.Errorf("%d requests failed by one fault", failed)
	}
	_, before, _ := c.do(t.Context(), http.MethodGet, "/healthz", "")
	c2 := *b.config
	c2.Train.Epochs += 2
	*b.config = c2
	b.train(t, berth.TrainOptions{Resume: true, AllowChanged: true})
	wantB = b.predictedBy(t, newest.Weights, file)
	var told struct {
		Changed  bool
		Adapters map[string]berth.Used
	}
	c.post(t, "/reload", "", &told)
	if now := told.Adapters["b"]; now.Step != 12 || told.Adapters["a"].Step != 6 {
		t.Errorf("after %s: %+v", before, told)
	}
	check("a", wantA)
	check("b", wantB)

	// An adapter is asked for in the body, by the query, or by both if they agree.
	body := func(key string) string { return `{"inputs": [[120, 7], [210, 1]]` + key + `}` }
	_, byBody, _ := c.do(t.Context(), http.MethodPost, "/predict", body(`, "adapter": "b"`))
	for _, key := range []string{"", `, "adapter": "b"`, `, "adapter": null`} {
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict?adapter=b", body(key)); code != http.StatusOK || text != byBody {
			t.Errorf("%s: %d %s, want %s", key, code, text, byBody)
		}
	}
	for _, x := range [][2]string{{"/predict?adapter=b", body(`, "adapter": "a"`)}, {"/predict?adapter=b", body(`, "adapter": ""`)}, {"/predict?adapter=a&adapter=b", body("")}} {
		if code, text, _ := c.do(t.Context(), http.MethodPost, x[0], x[1]); code != http.StatusBadRequest || !strings.Contains(text, "the request asks for two") {
			t.Errorf("%s %s: %d %s", x[0], x[1], code, text)
		}
	}
}

// Where the devices have no memory for the base twice, newer checkpoints of adapters take the place
// of those in use, and no request is dropped.
func TestReloadOfAdaptersWithoutRoom(t *testing.T) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	config := strings.Replace(catsConfig, "units: 8}, ", "units: 128}, {type: dense, units: 128}, ", 1)
	base := exported(t, trained(t, rows, config))
	a := beside(t, config, base, rows, "{rank: 2, alpha: 4, targets: [in, out]}")
	b := beside(t, config, base, rows, "{rank: 1, alpha: 4, targets: [out]}")
	a.config.Devices.Memory = configs.Memory{Bytes: 130 << 10}
	list := []berth.Adapter{a.adapter("a"), b.adapter("b")}
	for i := range list {
		list[i].Weights.Last = true
	}
	s, c := openAdapters(t, serve.OpenOptions{Adapters: list, Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	if n := s.Parts()[0].Bytes; n < 65<<10 { // more than half of the memory
		t.Fatalf("the base has %d bytes", n)
	}
	b.goOn(t)
	ended := make(chan bool)
	var answers sync.WaitGroup
	for _, name := range []string{"a", "b", ""} {
		answers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]], "adapter": "`+name+`"}`); code != http.StatusOK {
					t.Errorf("meanwhile, %q: %d %s", name, code, text)
				}
			}
		})
	}
	var told struct {
		Changed  bool
		Adapters map[string]berth.Used
	}
	c.post(t, "/reload", "", &told)
	close(ended)
	answers.Wait()
	if !told.Changed || told.Adapters["b"].Step != 9 || told.Adapters["a"].Step != 6 {
		t.Errorf("%+v", told)
	}
}

// An adapter whose checkpoints are gone keeps its weights, and is named with what to do. Others get newer
// ones meanwhile, also where the devices have no memory for the base twice, and it does once they are back.
func TestAdapterWithoutCheckpoints(t *testing.T) {
	for name, memory := range map[string]int64{"with room": 0, "without room": 130 << 10} {
		t.Run(name, func(t *testing.T) { testAdapterWithoutCheckpoints(t, memory) })
	}
}

func testAdapterWithoutCheckpoints(t *testing.T, memory int64) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	config := strings.Replace(catsConfig, "units: 8}, ", "units: 128}, {type: dense, units: 128}, ", 1)
	base := exported(t, trained(t, rows, config))
	a := beside(t, config, base, rows, "{rank: 2, alpha: 4, targets: [in, out]}")
	b := beside(t, config, base, rows, "{rank: 1, alpha: 4, targets: [out]}")
	a.config.Devices.Memory = configs.Memory{Bytes: memory}
	list := []berth.Adapter{a.adapter("a"), b.adapter("b")}
	list[0].Weights.Last, list[1].Weights.Last = true, true
	var mu sync.Mutex
	var told []string
	_, c := openAdapters(t, serve.OpenOptions{Adapters: list, Follow: -1, Service: berth.ServeOptions{Batch: 1}, Log: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, text)
	}})
	answer := func(name string) string {
		t.Helper()
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict?adapter="+name, `{"inputs": [[120, 7]]}`)
		if code != http.StatusOK {
			t.Errorf("%q: %d %s", name, code, text)
		}
		return text
	}
	before := map[string]string{"a": answer("a"), "b": answer("b"), "": answer("")}
	file := rundir.CheckpointPath(a.dir)
	if err := os.Rename(file, file+".kept"); err != nil {
		t.Fatal(err)
	}
	code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", "")
	const want = "or start the server without it"
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "adapter a: ") || !strings.Contains(text, want) {
		t.Errorf("%d %s", code, text)
	}
	type reloaded struct {
		Changed  bool
		Adapters map[string]berth.Used
		Error    string
	}
	b.goOn(t)
	var now reloaded
	c.post(t, "/reload", "", &now)
	if !now.Changed || now.Adapters["b"].Step != 9 || now.Adapters["a"].Step != 6 || !strings.Contains(now.Error, "adapter a: ") || !strings.Contains(now.Error, want) {
		t.Errorf("%+v", now)
	}
	mu.Lock()
	if len(told) < 2 || !strings.HasPrefix(told[0], "adapter a: ") || !strings.Contains(told[0], want) || !strings.Contains(told[0], "answering with checkpoint") {
		t.Errorf("%q", told)
	}
	mu.Unlock()
	if answer("a") != before["a"] || answer("") != before[""] || answer("b") == before["b"] {
		t.Error("the adapter whose checkpoints are gone, or the base, answers otherwise, or the other adapter does not")
	}
	if err := os.Rename(file+".kept", file); err != nil {
		t.Fatal(err)
	}
	a.goOn(t)
	now = reloaded{}
	c.post(t, "/reload", "", &now)
	if !now.Changed || now.Adapters["a"].Step != 9 || now.Adapters["b"].Step != 9 || now.Error != "" {
		t.Errorf("%+v", now)
	}
	if memory > 0 {
		return
	}
	other := beside(t, config, exported(t, trained(t, rows, strings.Replace(config, "seed: 1", "seed: 2", 1))), rows, "{rank: 3, alpha: 4, targets: [in]}")
	foreign, err := os.ReadFile(rundir.CheckpointPath(other.dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, foreign, 0o644); err != nil {
		t.Fatal(err)
	}
	b.goOn(t)
	now = reloaded{}
	c.post(t, "/reload", "", &now)
	if !now.Changed || now.Adapters["a"].Step != 9 || now.Adapters["b"].Step <= 9 || !strings.Contains(now.Error, "adapter a: ") {
		t.Errorf("%+v", now)
	}
}

// Of two newer checkpoints of adapters, one is of another base, and a device fails while the other one is loaded. The log says of
// that one alone that it is tried again.
func TestPauseOfOneAdapter(t *testing.T) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	base := exported(t, trained(t, rows, catsConfig))
	other := beside(t, catsConfig, exported(t, trained(t, rows, strings.Replace(catsConfig, "epochs: 2", "epochs: 3", 1))), rows, "{rank: 2, targets: [out]}")
	other.goOn(t)
	foreign, err := os.ReadFile(rundir.CheckpointPath(other.dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []string{"a", "b"} { // which is loaded alone last
		a, b := beside(t, catsConfig, base, rows, "{rank: 2, targets: [out]}"), beside(t, catsConfig, base, rows, "{rank: 1, targets: [out]}")
		list := []berth.Adapter{b.adapter("b"), a.adapter("a")}
		if last == "b" {
			slices.Reverse(list)
		}
		for i := range list {
			list[i].Weights.Last = true
		}
		told := make(chan string, 100)
		_, c := openAdapters(t, serve.OpenOptions{
			Adapters: list, Follow: time.Hour, Service: berth.ServeOptions{Batch: 1}, Log: func(text string) { told <- text },
			Faults: []fault.Fault{{Device: "cpu:0", Op: fault.Compile, N: 4, Kind: fault.Fail}}, // the first three are those of the base and both adapters
		})
		aside := rundir.CheckpointPath(a.dir) + ".new"
		if err := errors.Join(os.WriteFile(aside, foreign, 0o644), os.Rename(aside, rundir.CheckpointPath(a.dir))); err != nil {
			t.Fatal(err)
		}
		b.goOn(t)
		c.do(t.Context(), http.MethodPost, "/reload", "")
		if len(told) != 2 {
			t.Fatalf("%d lines", len(told))
		}
		for range 2 {
			text := <-told
			if again := strings.Contains(text, "; trying again in 1h0m0s; answering with"); again != strings.HasPrefix(text, "adapter b: checkpoint ") {
				t.Errorf("%s last: %s", last, text)
			}
		}
	}
}
