package train_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// A checkpoint that is written while training goes on holds the state of its
// own step, bit for bit, however it is staged.
func TestSavesBesideTrainingAreOfTheirStep(t *testing.T) {
	steps := []int{1, 4, 7}
	want := map[int]map[string][]byte{}
	for _, n := range steps {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: n})
		want[n] = runtest.Contents(t, dir, n)
	}
	for _, set := range [][]string{
		{"checkpoint.staging=whole", "devices=cpu:1"},
		{"checkpoint.staging=whole", "devices=cpu:3"},
		{"checkpoint.staging=1MiB", "devices=cpu:1"},
		{"checkpoint.staging=1MiB", "devices=cpu:2"},
	} {
		dir := t.TempDir()
		r := runtest.Open(t, runtest.Everything, append(set, "checkpoint.every=1", "checkpoint.keep.last=20")...)
		rep := runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 8, AssertResident: true})
		if c := rep.Checkpoints; c.Count != 8 || c.SaveMS <= 0 || c.Bytes <= 0 || c.MBPerS <= 0 {
			t.Errorf("%v: the report says %+v of 8 saves", set, c)
		}
		for _, n := range steps {
			got := runtest.Contents(t, dir, n)
			for name, b := range want[n] {
				if !bytes.Equal(got[name], b) {
					t.Errorf("%v: %s of step %d is not what it was at that step", set, name, n)
				}
			}
			if len(got) != len(want[n]) {
				t.Errorf("%v: %d tensors at step %d, want %d", set, len(got), n, len(want[n]))
			}
		}
	}
}

// A save that fails while training goes on ends the run, which says at which step;
// the checkpoints before it are there.
func TestFailedSaveEndsTheRun(t *testing.T) {
	t.Parallel()
	const variable = "BERTH_TEST_LIMITED"
	if os.Getenv(variable) == "" { // the limit is a process's, and this one writes other files too
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), variable+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	for _, staging := range []string{"whole", "1MiB"} {
		dir := t.TempDir()
		r := runtest.Open(t, runtest.Everything, "checkpoint.every=1", "checkpoint.keep.last=99", "checkpoint.staging="+staging)
		limited := false
		o := berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Saved: func(s berth.Saved) {
			if s.Step == 3 && !limited {
				limited = true
				limitFiles(t, rundir.CheckpointPath(dir))
			}
		}}}
		_, err := r.Train(t.Context(), o)
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "checkpoint at step") {
			t.Errorf("%s: got %v", staging, err)
		}
		allowFiles(t)
		got := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true})
		if want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{}); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%s: other weights after resuming", staging)
		}
	}
}

// An area whose eighth cuts an element saves the same.
func TestStagingOfAnyNumberOfBytes(t *testing.T) {
	wide := strings.Replace(runtest.Everything, "units: 24, activation: tanh}", "units: 24, activation: tanh}\n    - {type: dense, units: 2000}\n    - {type: dense, units: 24}", 1)
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, wide, "checkpoint.staging=1048590"), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	whole := t.TempDir()
	runtest.Train(t, runtest.Open(t, wide), berth.TrainOptions{Dir: whole, MaxSteps: 1})
	want := runtest.Contents(t, whole, 1)
	for name, b := range runtest.Contents(t, dir, 1) {
		if !bytes.Equal(b, want[name]) {
			t.Errorf("%s is not what it was", name)
		}
	}
}

// A variable that is larger than the area is said to need more.
func TestVariableLargerThanTheStagingArea(t *testing.T) {
	testall.Long(t)
	wide := strings.Replace(runtest.Everything, "units: 24, activation: tanh}", "units: 24, activation: tanh}\n    - {type: dense, name: wide, units: 20000}\n    - {type: dense, units: 24}", 1)
	for _, c := range []struct{ staging, want string }{
		{"1MiB", "a save takes up to 3 MiB of host memory and not checkpoint.staging's 1, since wide.weight"},
		{"8MiB", ""},
		{"whole", ""},
	} {
		said := ""
		o := berth.TrainOptions{MaxSteps: 1, Observer: &berth.Observer{Note: func(s string) { said += s + "\n" }}}
		runtest.Train(t, runtest.Open(t, wide, "checkpoint.staging="+c.staging), o)
		if !strings.Contains(said, c.want) || c.want == "" && said != "" {
			t.Errorf("%s: %q, want %q", c.staging, said, c.want)
		}
	}
}

// A folder whose only checkpoint is damaged, or was saved by a transaction that
// is, is not begun anew unasked.
func TestFolderWithADamagedCheckpointIsNotBegunAnew(t *testing.T) {
	page := os.Getpagesize()
	for name, spoil := range map[string]func(b []byte) int{
		"manifest": func(b []byte) int { return manifestAt(b, 1) + 40 },
		"meta": func(b []byte) int {
			if binary.LittleEndian.Uint64(b[64:]) > binary.LittleEndian.Uint64(b[page+64:]) {
				return 64
			}
			return page + 64
		},
	} {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
		path := rundir.CheckpointPath(dir)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[spoil(b)] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := runtest.Open(t, runtest.Everything).Train(t.Context(), berth.TrainOptions{Dir: dir}); !errors.Is(err, berth.ErrHasCheckpoint) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: got %v, want ErrHasCheckpoint", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%s: the file has changed, %v", name, err)
		}
	}
}

// manifestAt is where a checkpoint's manifest is in a file: behind its key and
// checksum.
func manifestAt(b []byte, id uint64) int {
	key, mark := binary.BigEndian.AppendUint64(nil, id), []byte(`{"format":`)
	at := bytes.Index(b, mark)
	for !bytes.Equal(b[at-24:at-16], key) {
		at += 1 + bytes.Index(b[at+1:], mark)
	}
	return at
}

// A run goes on from its newest checkpoint also where damage hides that: the
// pages that lead to all of them, or its manifest.
func TestResumeFindsWhatDamageHides(t *testing.T) {
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	for name, spoil := range map[string]func(b []byte) int{
		"manifest": func(b []byte) int { return manifestAt(b, 2) + 40 },
		"root": func(b []byte) int {
			page := os.Getpagesize()
			newest := b // of the two meta pages
			if binary.LittleEndian.Uint64(b[page+64:]) > binary.LittleEndian.Uint64(b[64:]) {
				newest = b[page:]
			}
			return int(binary.LittleEndian.Uint64(newest[32:]))*page + 8
		},
	} {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1"), berth.TrainOptions{Dir: dir, MaxSteps: 2})
		path := rundir.CheckpointPath(dir)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[spoil(b)] ^= 0x40
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		notes := ""
		o := berth.TrainOptions{Dir: dir, Resume: true, Observer: &berth.Observer{Note: func(s string) { notes += s + "\n" }}}
		got := runtest.Train(t, runtest.Open(t, runtest.Everything), o)
		if got.WeightsSHA256 != want.WeightsSHA256 || !strings.Contains(notes, "was damaged") || !strings.Contains(notes, "step 2") {
			t.Errorf("%s: %s", name, notes)
		}
	}
}

// Once a checkpoint is saved, a failure to give up old ones or their room is
// said, and the run goes on.
func TestTidyingThatFailsIsANote(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	wide := strings.Replace(runtest.Everything, "units: 24, activation: tanh}", "units: 24, activation: tanh}\n    - {type: dense, units: 30000}\n    - {type: dense, units: 24}", 1)
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, wide, "checkpoint.every=1", "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	inTheWay := filepath.Join(rundir.CheckpointPath(dir)+".berth-compact", "x")
	if err := os.MkdirAll(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	var notes []string
	saved := 0
	o := berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 7, Observer: &berth.Observer{
		Saved: func(berth.Saved) { saved++ },
		Note:  func(text string) { notes = append(notes, text) },
	}}
	runtest.Train(t, runtest.Open(t, wide, "checkpoint.every=1", "checkpoint.keep.last=1"), o)
	said := slices.DeleteFunc(notes, func(s string) bool { return !strings.Contains(s, "is saved, though tidying up after it failed") })
	if len(said) != 1 || !strings.Contains(said[0], "compact") || saved != 3 {
		t.Errorf("%d checkpoints, notes %q", saved, said)
	}
	runtest.Contents(t, dir, 7)
}

// A run whose folder is taken away ends with the next save, and says so; what
// was saved in a folder that is only moved is whole.
func TestRunFolderTakenAway(t *testing.T) {
	for name, take := range map[string]func(dir string) error{
		"deleted": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		saved := 0
		o := berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Saved: func(berth.Saved) {
			if saved++; saved == 1 {
				if err := take(dir); err != nil {
					t.Error(err)
				}
			}
		}}}
		r := runtest.Open(t, runtest.Everything, "checkpoint.every=1")
		_, err := r.Train(t.Context(), o)
		if !errors.Is(err, checkpoint.ErrMoved) || !strings.Contains(err.Error(), "was "+name) || saved != 1 {
			t.Errorf("%s: after %d saves: %v", name, saved, err)
		}
		if name == "moved" {
			runtest.Contents(t, dir+"-moved", 2)
		}
	}
}

// limitFiles is a quota: no file may grow beyond the size that path has.
func limitFiles(t *testing.T, path string) {
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	setFileLimit(t, uint64(st.Size()))
	t.Cleanup(func() { allowFiles(t) })
}

func allowFiles(t *testing.T) { setFileLimit(t, ^uint64(0)) }

func setFileLimit(t *testing.T, n uint64) {
	if err := limitFileSize(n); err != nil {
		t.Fatal(err)
	}
}

// A folder that cannot be written to is an error that names it.
func TestFolderThatCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := runtest.Open(t, runtest.Everything).Train(t.Context(), berth.TrainOptions{Dir: filepath.Join(path, "run")})
	if !errors.Is(err, berth.ErrFolder) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
