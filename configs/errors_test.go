package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorMessages holds what is said about each broken config of
// testdata/errors.in to testdata/errors.golden.
func TestErrorMessages(t *testing.T) {
	in, err := os.ReadFile("testdata/errors.in")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, chunk := range strings.Split("\n"+string(in), "\n-- ")[1:] {
		name, body, _ := strings.Cut(chunk, " --")
		body = strings.TrimPrefix(body, "\n")
		fmt.Fprintf(&out, "-- %s --\n", name)
		if _, err = Parse(name+".yaml", []byte(body), Overlay{}); err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v is not ErrInvalid", name, err)
		}
		fmt.Fprintln(&out, err)
	}
	golden(t, filepath.Join("testdata", "errors.golden"), out.String())
}

func TestOverlayMessages(t *testing.T) {
	cases := []struct {
		name string
		over Overlay
	}{
		{"set", Overlay{Set: []string{"train.batch=abc", "train.bacth=3", "train=3", "train.epochs", "zebra=1", "optimizer.betas=[0.9", "train.log_every="}}},
		{"env", Overlay{Env: []string{"BERTH_SEED=-1", "BERTH_TRIAN_BATCH=3", "BERTH_TRAIN_SIZE=3", "BERTH_DEBUG=2", "BERTH_DUMP=x", "PATH=/bin"}}},
		{"flags", Overlay{Flags: map[string]string{"devices": "GPU", "threads": "-1", "thread": "2"}}},
		{"variant", Overlay{Set: []string{"data.source=csv", "model.heads=4"}}},
		{"layers", Overlay{Set: []string{"model.layers=[reelu, {units: 3}, {type: dense}]"}}},
		{"rule", Overlay{Set: []string{"train.microbatches=7"}}},
	}
	var out strings.Builder
	for _, c := range cases {
		from := "digits"
		if c.name == "layers" {
			from = "digits-cnn"
		}
		_, err := Load(from, c.over)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", c.name, err)
		}
		fmt.Fprintf(&out, "-- %s --\n%v\n", c.name, err)
	}
	golden(t, filepath.Join("testdata", "overlay.golden"), out.String())
}

func TestErrorHasItsPlace(t *testing.T) {
	_, err := Parse("a.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\ntrain:\n  batch: 0\n"), Overlay{})
	var e *Error
	if !errors.As(err, &e) || e.Pos != (Pos{"a.yaml", 4}) || e.Key != "train.batch" {
		t.Fatalf("got %+v of %v", e, err)
	}
}

func TestHostileFiles(t *testing.T) {
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ","))
	}
	cases := []struct{ name, text, want string }{
		{"laughs", laughs, "more than 100000 values"},
		{"deep", "data: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nested more than 64 deep"},
		{"huge", strings.Repeat("# long\n", maxFile/7+1), "more than 1048576 bytes"},
		{"latin-1", "name: x\ndata: \xe9t\xe9\n", "a.yaml:2: the file is not UTF-8"},
		{"zero byte", "name: \x00\n", "not YAML"},
	}
	for _, c := range cases {
		_, err := Parse("a.yaml", []byte(c.text), Overlay{})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.300v, want %q", c.name, err, c.want)
		}
	}
}

func TestLoadFindsFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my run.yaml")
	if err := os.WriteFile(file, []byte("data: {source: digits}\nmodel: {preset: mlp}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, Overlay{})
	if err != nil || c.Name != "my-run" || c.Pos.File != file {
		t.Fatalf("got %+v, %v", c, err)
	}
	if _, err := Load(dir, Overlay{}); err == nil || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a folder: %v", err)
	}
	for path, want := range map[string]string{
		"digit":                         `did you mean "digits"?`,
		filepath.Join(dir, "none.yaml"): "there is no file",
	} {
		if _, err := Load(path, Overlay{}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if _, err := Source("mnist-mpl"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"mnist-mlp"`) {
		t.Errorf("Source: %v", err)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"batch", "epochs", "microbatches", "lr"}
	for word, want := range map[string]string{
		"bacth": "batch", "Batch": "batch", "epoch": "epochs", "micro_batches": "microbatches", "zzzz": "", "": "",
		strings.Repeat("x", 100): "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestListNear(t *testing.T) {
	var many []string
	for c := 'a'; c < 'a'+most; c++ {
		many = append(many, strings.Repeat(string(c), 4))
	}
	few := strings.Join(many, ", ")
	if got := listNear("batch", many); got != few {
		t.Errorf("%s: few words keep their order", got)
	}
	many = append(many, "rescale")
	if got := listNear("17", many); got != few+", …" {
		t.Errorf("%s: words that are all as far keep their order", got)
	}
	if got := listNear("autoscaling", many); !strings.HasPrefix(got, "rescale, ") || !strings.HasSuffix(got, ", …") {
		t.Errorf("%s does not begin with the nearest of many", got)
	}
}

// TestDataByItsSource reads the short form as the long one.
func TestDataByItsSource(t *testing.T) {
	long, err := Parse("a.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := Parse("a.yaml", []byte("data: digits\nmodel: {preset: mlp}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	a, errA := long.Identity()
	b, errB := short.Identity()
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%v, %v, or another config:\n%s\n%s", errA, errB, a, b)
	}
}
