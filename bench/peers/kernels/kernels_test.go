package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestMain makes the test's program a side, too.
func TestMain(m *testing.M) {
	if isSide() {
		if err := serveSide(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func rowsOfTest(t *testing.T) []*row {
	t.Helper()
	rows, err := allRows()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The rows have the kernels that the table is to judge, each once, with shapes that fit together.
func TestRows(t *testing.T) {
	rows := rowsOfTest(t)
	known := map[string]*row{}
	for _, r := range rows {
		if known[r.name] != nil {
			t.Errorf("%s is there twice", r.name)
		}
		known[r.name] = r
		if len(r.uses) == 0 {
			t.Errorf("nothing uses %s", r.name)
		}
	}
	for name, use := range map[string]string{
		"matmul 128x784 512x784T":                                "mlp y",
		"matmul 128x512T 128x784":                                "mlp dw",
		"matmul 768x128 128x384":                                 "gpt-nano y",
		"matmul 2048x384 384x1536":                               "gpt-small y",
		"matmul 256x768 50257x768T":                              "gpt2 y",
		"matmul 256x50257T 256x768":                              "gpt2 dw",
		"matmul 1x768 50257x768T kept":                           "gpt2, 1 row y",
		"matmul 8x2048 8192x2048T kept":                          "llama-1b, 8 rows y",
		"matmul 128x8192 2048x8192T kept":                        "llama-1b, 128 rows y",
		"matmul 256x2048 512x2048T":                              "llama-1b y",
		"matmul 1576x768 3072x768T":                              "vit-b y",
		"conv2d 64x1x28x28 32x1x3x3":                             "cnn y",
		"conv2d_grad_x 64x32x14x14 64x32x3x3":                    "cnn dx",
		"conv2d 8x3x224x224 64x3x7x7 stride 2":                   "resnet-50 y",
		"conv2d_grad_w 8x3x224x224 64x3x7x7 stride 2":            "resnet-50 dw",
		"conv2d 8x64x56x56 64x64x3x3":                            "resnet-50 y",
		"conv2d_grad_x 8x512x7x7 512x512x3x3":                    "resnet-50 dx",
		"conv2d 8x256x56x56 512x256x1x1 stride 2":                "resnet-50 y",
		"conv2d_grad_w 8x128x56x56 128x1x3x3 stride 2 depthwise": "mobilenet dw",
		"conv2d 8x512x14x14 512x1x3x3 depthwise":                 "mobilenet y",
		"conv2d 8x512x7x7 1024x512x1x1":                          "mobilenet y",
		"max_pool2d 8x64x112x112 by 3 stride 2":                  "resnet-50 y",
		"max_pool2d_grad 64x32x28x28 by 2 stride 2":              "cnn dx",
		"layer_norm 4x64x768":                                    "gpt2 y",
		"rms_norm_grad 1x256x2048":                               "llama-1b dx",
		"softmax 256x50257":                                      "scores y",
		"attention 8x256 heads 6 of 64":                          "gpt-small y",
		"attention_grad 1x256 heads 32 of 64 keys 8":             "llama-1b dx",
		"attention 8x197 heads 12 of 64 full":                    "vit-b y",
		"matmul 256x768 768x2304 bf16":                           "gpt2 y",
	} {
		if r := known[name]; r == nil {
			t.Errorf("there is no row %q", name)
		} else if !slices.Contains(r.uses, use) {
			t.Errorf("%s is of %v, without %q", name, r.uses, use)
		}
	}
	if p := known["matmul 128x512T 128x784"].product(); p != (product{512, 784, 128, true, false}) {
		t.Errorf("%+v", p)
	}
	c := known["conv2d_grad_w 8x3x224x224 64x3x7x7 stride 2"].conv()
	if !c.y.Equal(shape.Of(8, 64, 112, 112)) || c.pad != 3 {
		t.Errorf("%+v", c)
	}
	if p := known["max_pool2d_grad 64x32x28x28 by 2 stride 2"].pool(); !p.y.Equal(shape.Of(64, 32, 14, 14)) {
		t.Errorf("%+v", p)
	}
	if a := known["attention_grad 1x256 heads 32 of 64 keys 8"].attention(); a != (attention{1, 256, 32, 8, 64, false}) {
		t.Errorf("%+v", a)
	}
}

// Rows of bfloat16 are for levels with instructions for it.
func TestRowsOnLevels(t *testing.T) {
	rows := rowsOfTest(t)
	if n := len(rowsOn("amx", rows)); n != len(rows) {
		t.Errorf("amx has %d of %d rows", n, len(rows))
	}
	on := rowsOn("avx2", rows)
	if len(on) == len(rows) || slices.ContainsFunc(on, (*row).bf16) {
		t.Errorf("avx2 has %d of %d rows", len(on), len(rows))
	}
}

// Of rows that are given to a layer normalization in the place of an RMS normalization, means are 0.
func TestCentre(t *testing.T) {
	x, by := make([]float32, 3*50), make([]float32, 50)
	fill(x, 1)
	fill(by, 2)
	sums := func(by []float32) (largest float64) {
		for i := 0; i < len(x); i += 50 {
			sum := 0.0
			for k := range 50 {
				f := 1.0
				if by != nil {
					f = float64(by[k])
				}
				sum += f * float64(x[i+k])
			}
			largest = max(largest, math.Abs(sum))
		}
		return largest
	}
	if sums(nil) < 0.1 || sums(by) < 0.1 {
		t.Fatal("the sums are small as they are")
	}
	centre(x, nil, 50)
	if s := sums(nil); s > 1e-4 {
		t.Errorf("a sum is %v", s)
	}
	centre(x, by, 50)
	if s := sums(by); s > 1e-4 {
		t.Errorf("a sum with factors is %v", s)
	}
	mean, variance := statistics([]float32{1, 3, 5, 5}, 2)
	if !slices.Equal(mean, []float32{2, 5}) || !slices.Equal(variance, []float32{1, 0}) {
		t.Error(mean, variance)
	}
}

// Heads that are taken apart come together again.
func TestHeads(t *testing.T) {
	a := attention{batch: 2, tokens: 3, heads: 4, kvHeads: 2, size: 5}
	qkv := make([]float32, 2*3*(4+2*2)*5)
	fill(qkv, 1)
	q, k, v := a.split(qkv)
	if len(q) != 2*3*4*5 || len(k) != 2*3*2*5 || !slices.Equal(a.joined(q, k, v), qkv) {
		t.Error("other numbers")
	}
	if m := a.mask(); len(m) != 2*3*3 || m[1] >= 0 || m[3] != 0 || m[5] >= 0 || m[8] != 0 {
		t.Error(m)
	}
}

func TestRound(t *testing.T) {
	to := make([]uint16, 4)
	round(to, []float32{1, 1 + 1.0/256, 1 + 3.0/256, -2.5})
	if want := []uint16{0x3f80, 0x3f80, 0x3f82, 0xc020}; !slices.Equal(to, want) {
		t.Errorf("%#x, want %#x", to, want)
	}
}

// turns are turns of as many µs.
func turnsOf(us ...int) (ts []turn) {
	for _, n := range us {
		ts = append(ts, turn{time.Duration(n) * time.Microsecond, time.Duration(2*n) * time.Microsecond})
	}
	return ts
}

// A machine that is half as fast in some rounds changes no ratio, and is noticed. A side that others disturb in most of its turns
// has the ratio of the turn in which they do not.
func TestSummarize(t *testing.T) {
	l := summarize("avx2", 2, &row{name: "matmul 1x1 1x1", uses: []string{"a y", "b y"}}, timing{
		turns: map[string][]turn{
			berthName:    turnsOf(90, 180, 90, 180, 90),
			oneDNNName:   turnsOf(100, 200, 100, 200, 100),
			openBLASName: turnsOf(300, 600, 300, 600, 300),
		},
		how:    map[string]string{oneDNNName: "jit"},
		probes: []time.Duration{10, 20, 10, 20, 10},
	})
	if math.Abs(l.ratio-0.9) > 1e-9 || l.peer != oneDNNName || l.how != "jit" || l.unsteady != 2 || l.uses != "a y, b y" {
		t.Errorf("%+v", l)
	}
	var log strings.Builder
	l.log(&log, 3, 7)
	if s := log.String(); !strings.Contains(s, "3/7") || !strings.Contains(s, "0.90") || !strings.Contains(s, "changed by 100%") {
		t.Error(s)
	}
	l = summarize("avx2", 1, &row{}, timing{
		turns:  map[string][]turn{berthName: turnsOf(180, 180, 180, 90, 180), openBLASName: turnsOf(100, 200, 100, 100, 100)},
		probes: []time.Duration{10, 10, 10, 10, 10},
	})
	if math.Abs(l.ratio-0.9) > 1e-9 || math.Abs(l.ofMedians-1.8) > 1e-9 || math.Abs(l.ofRounds-1.8) > 1e-9 || l.unsteady != 1 {
		t.Errorf("%+v", l)
	}
}

func TestProbe(t *testing.T) {
	if d := probe(); d <= 0 || d > time.Second {
		t.Errorf("the probe took %v", d)
	}
	if spread(nil) != 1 || spread([]time.Duration{4, 2, 3}) != 2 {
		t.Error("another spread")
	}
}

// someTable has two levels.
func someTable() table {
	at := func(level, kernel string, ratio float64) line {
		return line{
			level: level, threads: 1, kernel: kernel, uses: "mlp y", peer: oneDNNName, how: "jit, fast", ratio: ratio,
			ofMedians: 2, ofRounds: 3, unsteady: 1, sides: map[string]turn{berthName: turnsOf(10)[0], oneDNNName: turnsOf(20)[0]},
		}
	}
	return table{
		about: []string{"An abacus.", "Two of them."},
		lines: []line{at("avx2", "matmul 1x2 2x3", 0.5), at("avx2", "matmul 4x2 2x3", 2), at("amx", "conv2d", 1)},
	}
}

func TestTable(t *testing.T) {
	tb := someTable()
	if m := mean(tb.lines); math.Abs(m-1) > 1e-9 || mean(nil) != 0 {
		t.Errorf("the mean is %v", m)
	}
	if n := above(tb.lines, mostRatio); n != 1 {
		t.Errorf("%d are above", n)
	}
	if w := worst(tb.lines, 2); len(w) != 2 || w[0].ratio != 2 || w[1].ratio != 1 {
		t.Errorf("%+v", w)
	}
	if v := tb.verdict(); !strings.Contains(v, "not met") {
		t.Error(v)
	}
	tb.lines = tb.lines[:1]
	if v := tb.verdict(); !strings.Contains(v, "is met") {
		t.Error(v)
	}
}

// A table that is written is read again as it was, and the summary of all tables goes into the page.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	folder, page := filepath.Join(dir, "kernels"), filepath.Join(dir, "performance.md")
	tb := someTable()
	if err := errors.Join(os.Mkdir(folder, 0o755), tb.write(filepath.Join(folder, "abacus.csv")),
		os.WriteFile(page, []byte("before\n"+begins+"old\n"+ends+"\nafter\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	got, err := readTable(filepath.Join(folder, "abacus.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tb) {
		t.Errorf("%+v\nwas\n%+v", got, tb)
	}
	if err := writePage(page, folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n", "\nafter\n", "[abacus](kernels/abacus.csv): An abacus.",
		"| avx2 | 1 | matmul | 2 | 1.00 | 1 | 2.00 |", "oneDNN: 20.0 µs",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Error("the old table is there still")
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, folder); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(begins)) {
		t.Errorf("without marks: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "abacus.csv"), []byte("a,b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readTable(filepath.Join(folder, "abacus.csv")); err == nil {
		t.Error("another file is read as a table")
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("BERTH_CPU", "")
	for _, c := range []struct {
		o    options
		args []string
		want string
	}{
		{options{seconds: 1, only: "("}, nil, "-only"},
		{options{seconds: 1, only: "nothing like that"}, nil, "matches no row"},
		{options{seconds: 0}, nil, "-seconds"},
		{options{seconds: math.NaN()}, nil, "-seconds"},
		{options{seconds: math.Inf(1)}, nil, "-seconds"},
		{options{seconds: 1, only: "mlp", write: true}, nil, "-write goes without -only"},
		{options{seconds: 1, write: true}, nil, "bench/peers"}, // this test runs in kernels
		{options{seconds: 1}, []string{"mlp"}, `"mlp"`},
	} {
		if _, err := chosen(c.o, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %v: %v", c.o, c.args, err)
		}
	}
	rows, err := chosen(options{seconds: 1, only: "gpt2 dw"}, nil)
	if err != nil || len(rows) == 0 || slices.ContainsFunc(rows, func(r *row) bool { return !r.op.(ops.MatMul).TransA }) {
		t.Error(len(rows), err)
	}
	t.Setenv("BERTH_CPU", "avx2")
	if _, err := chosen(options{seconds: 1, write: true}, nil); err == nil || !strings.Contains(err.Error(), "BERTH_CPU") {
		t.Errorf("one level is written as a table of all: %v", err)
	}
	t.Setenv("BERTH_CPU", "abacus")
	if _, err := levelsHere(); err == nil {
		t.Error("BERTH_CPU=abacus is a level")
	}
}

// Results that differ by more than rounding are told.
func TestSame(t *testing.T) {
	want := [][]float32{{1, 2, 1000}}
	if err := same(want, [][]float32{{1, 2.05, 1000}}); err != nil {
		t.Error(err)
	}
	nan := float32(math.NaN())
	for _, got := range [][][]float32{{{1, 2.2, 1000}}, {{1, nan, 1000}}, {{1, 2}}, {}, {{1, 2, 1000}, {1}}} {
		if same(want, got) == nil {
			t.Errorf("%v is the same as %v", got, want)
		}
	}
}

// A library that is not there is an error that says what to install.
func TestOpen(t *testing.T) {
	_, err := open("abacus", "apt-get install abacus", "libabacus.so.1", "libabacus.so")
	if err == nil || !strings.Contains(err.Error(), "apt-get install abacus") {
		t.Error(err)
	}
}

// contestOf begins a contest, and skips the test where no peer is installed.
func contestOf(t *testing.T) *contest {
	t.Helper()
	for _, load := range []func() error{
		func() error { _, err := newOpenBLAS(); return err },
		func() error { _, err := newOneDNN(); return err },
	} {
		if err := load(); err != nil {
			t.Skip(err)
		}
	}
	// The thread that starts a side must not end before it.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	levels, err := levelsHere()
	if err != nil {
		t.Fatal(err)
	}
	c := &contest{ctx: t.Context(), level: levels[0], threads: 2, seconds: 0.001, folder: t.TempDir()}
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	return c
}

// The smallest row of each op is computed by oneDNN with the same results, and timed.
func TestPeersAgree(t *testing.T) {
	c := contestOf(t)
	defer func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}()
	smallest := map[string]*row{}
	for _, r := range rowsOn(c.level, rowsOfTest(t)) {
		kind := r.op.Kind() + map[bool]string{true: " depthwise"}[strings.HasSuffix(r.name, "depthwise")]
		if old := smallest[kind]; old == nil || r.bytes() < old.bytes() {
			smallest[kind] = r
		}
	}
	if len(smallest) != len(kinds)+3 {
		t.Errorf("%d kinds of rows", len(smallest))
	}
	for _, r := range smallest {
		tm, failed, err := c.measure(r)
		if err := errors.Join(append(failed, err)...); err != nil {
			t.Error(err)
			continue
		}
		l := summarize(c.level, c.threads, r, tm)
		if len(tm.turns[berthName]) < rounds || len(tm.turns[oneDNNName]) != len(tm.turns[berthName]) || !(l.ratio > 0) {
			t.Errorf("%s: %+v", r.name, tm)
		}
		if _, ok := tm.turns[openBLASName]; ok != (r.op.Kind() == "matmul") {
			t.Errorf("%s is computed by OpenBLAS: %v", r.name, ok)
		}
		l.log(io.Discard, 1, 1)
	}
}

// Sides are stopped between turns, and one that died is started anew.
func TestSides(t *testing.T) {
	c := contestOf(t)
	defer func() {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}()
	for _, p := range c.sides {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			t.Skip(err)
		}
		stopped := false
		for begin := time.Now(); !stopped && time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
			_, after, _ := strings.Cut(string(stat), ") ")
			stopped = strings.HasPrefix(after, "T")
			stat, _ = os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		}
		if !stopped {
			t.Errorf("%s runs: %s", p.name, stat)
		}
	}
	p := c.sides[1]
	if a, err := p.ask(request{Prepare: "nothing"}); err == nil || a.No || !strings.Contains(err.Error(), `no row "nothing"`) {
		t.Error(a, err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ask(request{Prepare: "softmax 2048x65"}); err == nil || !p.dead {
		t.Fatalf("a dead side answers: %v", err)
	}
	if err := c.revive(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.sides[1].ask(request{Prepare: "softmax 2048x65"}); err != nil {
		t.Error(err)
	}
}
