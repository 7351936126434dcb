package jobs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestFolders: two jobs that are not over never share a run folder, whatever happens to folders.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	submit := func(key string, s Submission) (string, error) {
		s.Key, s.Config = key, text(t)
		j, err := d.Submit(t.Context(), s)
		return j.Dir, err
	}
	first, err := submit("a", Submission{Parent: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first); err != nil { // while its job waits
		t.Fatal(err)
	}
	if second, err := submit("b", Submission{Parent: dir}); err != nil || second == first {
		t.Errorf("the second job is in %s: %v", second, err)
	}
	if _, err := submit("c", Submission{Parent: dir, Retries: -1}); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("retries below 0: %v", err)
	}
	for _, path := range []string{first, dir + "/x/../digits", "digits"} {
		if _, err := submit(path, Submission{Dir: path}); !errors.Is(err, berth.ErrFolder) && !errors.Is(err, berth.ErrOptions) {
			t.Errorf("a job in %s: %v", path, err)
		}
	}
}

// TestSubmitsAtOnce: submissions at the same time with one key make one job and one folder, and with many keys as
// many.
func TestSubmitsAtOnce(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	config := text(t)
	var submits sync.WaitGroup
	for i := range 16 {
		submits.Go(func() {
			s := Submission{Key: fmt.Sprint(max(i-7, 0)), Config: config, Parent: filepath.Join(dir, "runs")}
			if _, err := d.Submit(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	submits.Wait()
	folders := map[string]bool{}
	for _, v := range d.Views() {
		folders[v.Dir] = true
	}
	made, err := os.ReadDir(filepath.Join(dir, "runs"))
	if err != nil || len(d.Views()) != 9 || len(folders) != 9 || len(made) != 9 {
		t.Errorf("%d jobs in %d folders; %d were made: %v", len(d.Views()), len(folders), len(made), err)
	}
}

// TestSubmittedAgain: a submission that is sent again is answered with its job, also one that changes its length, and
// where it could not be planned any more.
func TestSubmittedAgain(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	for i, length := range [][]string{nil, {"train.epochs=1"}} {
		s := Submission{Key: fmt.Sprint(i), Config: text(t), Length: length, Parent: dir}
		first, err := d.Submit(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := d.Submit(t.Context(), s); err != nil || again.ID != first.ID || again.Dir != first.Dir {
			t.Errorf("%v: %+v, and again %+v: %v", length, first, again, err)
		}
	}
	if err := d.owned.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err := d.Submit(t.Context(), Submission{Key: "0", Config: text(t), Parent: dir}); err != nil || j.ID != 1 {
		t.Errorf("without devices: %+v, %v", j, err)
	}
	d.owned, _ = berth.OpenDevices(configs.Devices{Use: "cpu:1"}, berth.DevicesOptions{})
}

// TestFolderOfARun: a job is refused that was to begin in the folder of another run.
func TestFolderOfARun(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	v := d.await(t, d.submit(t, dir, "a", text(t, "train.epochs=1")))
	_, err := d.Submit(t.Context(), Submission{Key: "b", Config: text(t), Dir: v.Dir})
	if !errors.Is(err, berth.ErrHasCheckpoint) || !strings.Contains(err.Error(), "name another folder with --run") {
		t.Error(err)
	}
	for _, s := range []Submission{{Dir: dir + "/a\x00b"}, {Parent: dir + "/a\x00b"}} {
		s.Key, s.Config = "c", text(t)
		if _, err := d.Submit(t.Context(), s); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "byte 0") {
			t.Errorf("a folder with a byte 0: %v", err)
		}
	}
}

// TestFolderTakenMeanwhile: a job does not go on with a run that somebody has begun in its folder before it began.
func TestFolderTakenMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.Submit(t.Context(), Submission{Key: "a", Config: text(t, "train.epochs=2"), Parent: dir})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("other", text(t, "train.epochs=2"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Train(t.Context(), berth.TrainOptions{Dir: j.Dir, MaxSteps: 10})
	if err := errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	d := start(t, dir, "cpu:1")
	if v := d.await(t, j.ID); v.State != queue.Failed || len(v.Attempts) != 1 || !strings.Contains(v.Failure(), "another run has begun there") {
		t.Errorf("the job is %s after %d attempts: %s", v.State, len(v.Attempts), v.Failure())
	}
}

// TestFolderOfASweep: a sweep and a pipeline are refused in a folder that has trials or steps of another one, whose files theirs
// would replace. Other files in it do no harm, and the same sweep is its own.
func TestFolderOfASweep(t *testing.T) {
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	used := filepath.Join(dir, "used")
	if err := os.MkdirAll(filepath.Join(used, "trial-002"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(used, "notes"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	sweep := func(key, dir, trials string) (queue.Job, error) {
		return d.Submit(t.Context(), Submission{Key: key, Config: text(t), Dir: dir, Sweep: "sweep: {config: digits, vary: {optimizer.lr: 0.1..0.2}, trials: " + trials + "}"})
	}
	if _, err := sweep("a", used, "4"); !errors.Is(err, berth.ErrFolder) || !strings.Contains(err.Error(), "trial-002") {
		t.Errorf("a sweep beside other trials: %v", err)
	}
	if _, err := sweep("b", filepath.Join(used, "notes"), "4"); !errors.Is(err, berth.ErrFolder) {
		t.Errorf("a sweep in a file: %v", err)
	}
	for name, bad := range map[string]bool{"notes": true, "other": false} {
		steps := []Step{{Name: name, Config: text(t)}}
		if _, err := d.Submit(t.Context(), Submission{Key: name, Name: "p", Dir: used, Config: []byte("p"), Steps: steps}); errors.Is(err, berth.ErrFolder) != bad {
			t.Errorf("a pipeline with a step %s: %v", name, err)
		}
	}
	own := filepath.Join(dir, "own")
	first, err := sweep("c", own, "4")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(own, "trial-001"), 0o777); err != nil {
		t.Fatal(err)
	}
	if j, err := sweep("d", own, "4"); err != nil || j.ID != first.ID || len(j.Sweep.Submitted) != 2 {
		t.Errorf("the same sweep is %+v, expected job %d: %v", j, first.ID, err)
	}
	if _, err := sweep("e", own, "3"); !errors.Is(err, berth.ErrFolder) {
		t.Errorf("another sweep in its folder: %v", err)
	}
}
