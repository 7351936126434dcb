package command

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/zeebo/xxh3"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/safetensors"
)

// scriptCommands are the commands that scripts have beyond testscript's own.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"exits":     exits,
	"stopping":  stopping,
	"canceling": canceling,
	"ending":    ending,
	"report":    checkReport,
	"same":      sameRuns,
	"losses":    referenceLosses,
	"damage":    damage,
	"compress":  compress,
	"convert":   convert,
	"lines":     lines,
	"spoil":     spoil,
	"format":    format,
	"floor":     floor,
	"drills":    drills,
	"planned":   planned,
	"server":    server,
	"ask":       ask,
	"answers":   answers,
	"events":    events,
}

// compress FILE writes FILE.gz and FILE.zst.
func compress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: compress FILE")
	}
	path := ts.MkAbs(args[0])
	plain, err := os.ReadFile(path)
	ts.Check(err)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err = w.Write(plain)
	ts.Check(errors.Join(err, w.Close(), os.WriteFile(path+".gz", gz.Bytes(), 0o644)))
	z, err := zstd.NewWriter(nil)
	ts.Check(err)
	ts.Check(errors.Join(os.WriteFile(path+".zst", z.EncodeAll(plain, nil), 0o644), z.Close()))
}

// exits CODE PROGRAM ARGS… runs a program that must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	if got := codeOf(ts, err); got != want {
		ts.Fatalf("exit code %d, expected %d", got, want)
	}
}

func codeOf(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

// stopping SIGNAL CODE RUN PROGRAM ARGS… runs a program, sends it the signal
// once RUN/metrics.jsonl has step 25, and expects the exit code (-1: killed).
// What it printed goes to the file stopped.txt.
func stopping(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: stopping SIGNAL CODE RUN PROGRAM ARGS…")
	}
	signal, ok := signalsByName[args[0]]
	want, err := strconv.Atoi(args[1])
	if !ok || err != nil {
		ts.Fatalf("signal %s, code %s", args[0], args[1])
	}
	cmd, out := begin(ts, args[2], args[3:])
	ts.Check(send(cmd.Process, signal))
	if signal == syscall.SIGHUP {
		if err := send(cmd.Process, signal); !errors.Is(err, os.ErrProcessDone) {
			ts.Check(err)
		}
	}
	end(ts, cmd, out, want)
}

// ending N CODE RUN PROGRAM ARGS… runs a program that hangs after step 25, sends
// it N times SIGTERM, and expects the exit code. What it printed goes to the file
// stopped.txt.
func ending(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: ending N CODE RUN PROGRAM ARGS…")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	cmd, out := begin(ts, args[2], args[3:])
	time.Sleep(500 * time.Millisecond) // until it hangs
	signalTimes(ts, n, cmd, out, syscall.SIGTERM)
	end(ts, cmd, out, want)
}

// canceling N CODE TEXT PROGRAM ARGS… runs a program, sends it N times SIGINT once it has
// printed TEXT, and expects that it ends within 6 s with the exit code. What it printed goes
// to the file stopped.txt.
func canceling(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: canceling N CODE TEXT PROGRAM ARGS…")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	cmd, out := start(ts, args[3:])
	out.until(args[2])
	began := time.Now()
	signalTimes(ts, n, cmd, out, syscall.SIGINT)
	end(ts, cmd, out, want)
	if took := time.Since(began); took > 6*time.Second {
		ts.Fatalf("it ended %v after the signal: %s", took, out.String())
	}
}

// signalTimes sends a signal n times. Of two that come at once, the system delivers one, and
// the program takes those of a tenth of a second as one.
func signalTimes(ts *testscript.TestScript, n int, cmd *exec.Cmd, out *transcript, signal os.Signal) {
	for i := range n {
		if i > 0 {
			out.until("a second signal stops at once")
			time.Sleep(150 * time.Millisecond)
		}
		ts.Check(send(cmd.Process, signal))
	}
}

// transcript is the output of a program that runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *transcript) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *transcript) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// until waits until the program has printed a text, for at most a minute.
func (p *transcript) until(text string) {
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.String(), text) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// start starts a program.
func start(ts *testscript.TestScript, args []string) (*exec.Cmd, *transcript) {
	program, err := lookPath(ts, args[0])
	ts.Check(err)
	out := &transcript{}
	cmd := exec.Command(program, args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, out
	cmd.SysProcAttr = signalled
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR"), "BERTH_QUEUE=" + ts.Getenv("BERTH_QUEUE")}
	hup := make(chan os.Signal, 1) // a test that ignores SIGHUP, as under nohup, starts programs that do not
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	ts.Check(cmd.Start())
	return cmd, out
}

// begin starts a program, and returns once RUN/metrics.jsonl has step 25.
func begin(ts *testscript.TestScript, run string, args []string) (*exec.Cmd, *transcript) {
	cmd, out := start(ts, args)
	deadline := time.Now().Add(time.Minute)
	metrics := filepath.Join(ts.MkAbs(run), "metrics.jsonl")
	for {
		text, err := os.ReadFile(metrics)
		if err == nil && bytes.Contains(text, []byte(`"step":25,`)) || time.Now().After(deadline) {
			return cmd, out
		}
		time.Sleep(time.Millisecond)
	}
}

// end waits for a program, which must exit with that code.
func end(ts *testscript.TestScript, cmd *exec.Cmd, out *transcript, want int) {
	err := cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("stopped.txt"), []byte(out.String()), 0o644))
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, expected %d (%v): %s", got, want, err, out.String())
	}
}

// floor PROGRAM ARGS… runs a program that refuses its device memory, and puts the
// least memory that its message names into the variable FLOOR.
func floor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: floor PROGRAM ARGS…")
	}
	if code := codeOf(ts, ts.Exec(args[0], args[1:]...)); code != 2 {
		ts.Fatalf("exit code %d, expected 2", code)
	}
	_, text, found := strings.Cut(ts.ReadFile("stderr"), "at least ")
	if text, _, _ = strings.Cut(text, " "); !found {
		ts.Fatalf("no floor is named")
	}
	ts.Setenv("FLOOR", text)
}

// lookPath finds a program on the script's PATH, where trainer is.
func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); isFile(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// reportOf reads RUN/report.json, which must have the documented keys and no
// others.
func reportOf(ts *testscript.TestScript, run string) documented {
	var r documented
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(filepath.Join(run, "report.json"))))
	d.DisallowUnknownFields()
	ts.Check(d.Decode(&r))
	if err := d.Decode(&r); !errors.Is(err, io.EOF) {
		ts.Fatalf("%s/report.json goes on after its end", run)
	}
	return r
}

// checkReport RUN KEY OP VALUE compares a number of the report: steps, epochs,
// losses (how many), accuracy, weights_in, pull_back_per_step, extra_in_per_step
// (beyond the batch).
func checkReport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: report RUN KEY OP VALUE")
	}
	r := reportOf(ts, args[0])
	s := r.Ledger.SteadyState
	v := map[string]float64{
		"steps": float64(r.Steps), "epochs": float64(r.Epochs), "losses": float64(len(r.Losses)),
		"weights_in": float64(r.Ledger.CopyInWeightBytes), "pull_back_per_step": float64(s.PullBackBytesPerStep),
		"extra_in_per_step": float64(s.CopyInBytesPerStep - s.BatchBytesPerStep), "stages": float64(r.Stages), "replicas": float64(r.Replicas),
		"accuracy": -1, "parameters": float64(r.Parameters),
	}
	if a := r.Final.ValAccuracy; a != nil {
		v["accuracy"] = *a
	}
	v["balance_changes"] = 0
	if b := r.Balance; b != nil { // changes of the shares of microbatches, and the last replica's least and largest share
		last := len(b.Shares) - 1
		v["balance_changes"], v["balance_least"] = float64(b.Changes), math.Inf(1)
		for _, m := range b.Newest {
			v["balance_least"] = min(v["balance_least"], float64(m.Shares[last]))
			v["balance_most"] = max(v["balance_most"], float64(m.Shares[last]))
		}
	}
	got, ok := v[args[1]]
	want, err := strconv.ParseFloat(args[3], 64)
	ops := map[string]bool{"=": got == want, ">=": got >= want, "<": got < want}
	holds, known := ops[args[2]]
	if !ok || !known || err != nil {
		ts.Fatalf("usage: report RUN KEY OP VALUE")
	}
	if !holds {
		ts.Fatalf("%s is %v, expected %s %v", args[1], got, args[2], want)
	}
}

// sameRuns RUN RUN… (! for different ones) compares weights, and the losses.
func sameRuns(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: same RUN RUN…")
	}
	first := reportOf(ts, args[0])
	for _, run := range args[1:] {
		r := reportOf(ts, run)
		weights := r.WeightsSHA256 == first.WeightsSHA256 && len(r.WeightsSHA256) == 64
		if weights == neg {
			ts.Fatalf("weights of %s and %s: same is %v", args[0], run, weights)
		}
		if !neg && !slices.Equal(r.Losses, first.Losses) {
			ts.Fatalf("losses of %s and %s differ:\n%v\n%v", args[0], run, first.Losses, r.Losses)
		}
		if v, w := first.Final.ValLoss, r.Final.ValLoss; !neg && v != nil && w != nil && *v != *w {
			ts.Fatalf("validation losses of %s and %s differ: %v, %v", args[0], run, *v, *w)
		}
		if v, w := first.Test, r.Test; !neg && v != nil && (w == nil || v.Loss != w.Loss || v.Samples != w.Samples || v.Step != w.Step) {
			ts.Fatalf("tests of %s and %s differ: %+v, %+v", args[0], run, v, w)
		}
	}
}

// referenceLosses RUN FILE.safetensors compares the report's losses with the
// file's tensor losses, within 1e-4 of each.
func referenceLosses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: losses RUN FILE")
	}
	f, err := safetensors.Open(context.Background(), ts.MkAbs(args[1]))
	ts.Check(err)
	want, err := f.Float32("losses")
	ts.Check(errors.Join(err, f.Close()))
	got := reportOf(ts, args[0]).Losses
	if len(got) == 0 || len(got) != len(want) {
		ts.Fatalf("%d losses, the reference has %d", len(got), len(want))
	}
	for i, w := range want {
		if d := math.Abs(got[i]-float64(w)) / math.Abs(float64(w)); !(d < 1e-4) {
			ts.Fatalf("loss of step %d is %v, the reference has %v: %.2g apart", i+1, got[i], w, d)
		}
	}
}

// damage RUN breaks the contents of the newest checkpoint. The file holds them
// in chunks: it searches the file for the bytes that one of them begins with.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage RUN")
	}
	path := rundir.CheckpointPath(ts.MkAbs(args[0]))
	db, err := checkpoint.Open(path, checkpoint.OpenOptions{ReadOnly: true})
	ts.Check(err)
	snap, _, err := db.Latest(context.Background())
	ts.Check(err)
	var name string
	var size int64
	for _, t := range snap.Tensors() {
		if t.Role == "parameter" && t.Meta.Bytes() > size {
			name, size = t.Name, t.Meta.Bytes()
		}
	}
	chunk := make([]byte, min(size, 64))
	ts.Check(snap.Read(name, 0, chunk))
	ts.Check(db.Close())
	data, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.Index(data, chunk)
	if at < 0 {
		ts.Fatalf("the contents of %s are not in %s", name, path)
	}
	for at >= 0 { // every copy: freed pages may hold old ones
		data[at] ^= 1
		at = bytes.Index(data, chunk)
	}
	ts.Check(os.WriteFile(path, data, 0o644))
}

// spoil FILE puts noise into a checkpoint file's list of free pages, which
// belongs to no checkpoint.
func spoil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: spoil FILE")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	// bbolt's meta pages: the page size at 24, and behind it the page of the
	// list at 48 and the transaction at 64.
	page := int(binary.NativeEndian.Uint32(data[24:]))
	word := func(meta, at int) int { return int(binary.NativeEndian.Uint64(data[meta*page+at:])) }
	newest := 0
	if word(1, 64) > word(0, 64) {
		newest = 1
	}
	list := data[word(newest, 48)*page+16:]
	copy(list[:64], bytes.Repeat([]byte{0x5a}, 64))
	ts.Check(os.WriteFile(path, data, 0o644))
}

// format FILE N gives a checkpoint file the format version N: it rewrites the
// record that docs/checkpoint-format.md describes.
func format(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: format FILE N")
	}
	record := func(version string) []byte {
		text := `{"format":` + version + `}`
		sum := xxh3.Hash128([]byte("berth\x00\x06\x00\x00\x00format" + text)).Bytes()
		return append(sum[:], text...)
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	was, is := record("1"), record(args[1])
	if !bytes.Contains(data, was) || len(was) != len(is) {
		ts.Fatalf("%s has no format record of version 1", path)
	}
	ts.Check(os.WriteFile(path, bytes.ReplaceAll(data, was, is), 0o644))
}

// lines COUNT FILE TEXT counts the lines that hold a text.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: lines COUNT FILE TEXT")
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if strings.Contains(line, args[2]) {
			n++
		}
	}
	if want, err := strconv.Atoi(args[0]); err != nil || n != want {
		ts.Fatalf("%d lines of %s hold %q, expected %s", n, args[1], args[2], args[0])
	}
}
