package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs/queue"
)

// EvalName is the file in the folder of a job that evaluates with what it found: a [berth.Evaluation] as JSON.
const EvalName = "eval.json"

// initName is the file in the run folder with the weights with which a training begins, while it does; with an adapter, it stays.
const initName = "init.safetensors"

// tokenizerFile is the file of a tokenizer that is learnt in a folder.
func tokenizerFile(dir string) string { return filepath.Join(dir, rundir.TokenizerName) }

// exporters write a model in a format.
var exporters = map[string]func(context.Context, berth.Weights, string) (*berth.Exported, error){
	"safetensors": berth.ExportSafetensors, "onnx": berth.ExportONNX, "hf": berth.Export, "peft": berth.ExportPEFT,
}

// The host memory in which a tokenizer is learnt: some, and some for each byte of the text, up to a bound, since there is one on
// the words that are counted. The whole process took 75 MiB for 5 MB of code, 105 MiB for 20 MB, and 772 MiB for 20 MB of random
// letters; a program that does nothing takes 42 MiB.
const (
	learnHost    = 32 << 20
	learnPerByte = 4
	learnMost    = 1 << 30
)

// takes finds out the host memory of a submission that trains nothing, with the jobs that give it something, as far as they are
// known. What has a run's weights takes at most what their training took, and an evaluation has data, too.
func takes(list []queue.Job, inputs []queue.Input, q *queue.Submission) {
	w := q.Work
	if w.Kind == queue.WorkTokenizer {
		q.Host = learnHost
		for _, path := range w.Texts {
			q.Host += learnPerByte * sizeOf(path)
		}
		q.Host = min(q.Host, learnMost)
		return
	}
	i := slices.IndexFunc(list, func(j queue.Job) bool {
		gives := func(in queue.Input) bool { return in.As == queue.AsRun && in.Job == j.ID }
		return slices.ContainsFunc(inputs, gives) || w.Run != "" && j.Dir == w.Run && j.Work == nil
	})
	if i < 0 {
		return
	}
	q.Host = list[i].Host
	if w.Kind == queue.WorkEval {
		q.Data, q.DataID = list[i].Data, list[i].DataID
		if len(w.Set) > 0 { // that may be other data, of about that size
			q.DataID += " " + strings.Join(w.Set, " ")
		}
	}
}

// workPlan is what a job takes whose inputs have finished; nil: what it took before.
func workPlan(list []queue.Job, j *queue.Job) *queue.Submission {
	if j.Work == nil {
		return nil
	}
	q := &queue.Submission{Work: j.Work, Needs: j.Needs, Length: j.Predicted, Memory: j.Memory}
	takes(list, j.Inputs, q)
	return q
}

// sizeOf is the bytes of a file, or of those in a folder; of what is not there, none.
func sizeOf(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if st, err := e.Info(); err == nil {
				bytes += st.Size()
			}
		}
		return nil
	})
	return bytes
}

// work does what the job does in place of a training. What it makes is complete with its result.
func (t *task) work(log *logFile) (r queue.Result, err error) {
	note := func(text string) { fmt.Fprintln(log, time.Now().Format(time.DateTime), text) }
	do := map[string]func(note func(string)) (path string, err error){
		queue.WorkTokenizer: t.learn, queue.WorkEval: t.evaluate, queue.WorkExport: t.export,
	}[t.job.Work.Kind]
	if do == nil {
		return r, fmt.Errorf("%w: this program cannot do %q", berth.ErrOptions, t.job.Work.Kind)
	}
	path, err := do(note)
	if err != nil {
		return r, err
	}
	sum, err := sumOf(path)
	if err != nil {
		return r, err
	}
	note(fmt.Sprintf("%s, SHA-256 %s", path, sum))
	return queue.Result{Complete: true, Made: []queue.Made{{Path: path, SHA256: sum}}}, nil
}

// learn learns a tokenizer.
func (t *task) learn(note func(string)) (string, error) {
	w, path := t.job.Work, tokenizerFile(t.job.Dir)
	b, err := datasets.LearnTokenizer(t.halted, w.Texts, datasets.LearnOptions{Vocab: w.Vocab, Field: w.Field, FieldName: "field", Note: note})
	switch {
	case t.halted.Err() != nil:
		return "", err
	case err != nil:
		return "", dataError{err} // of the text
	}
	if b.Len() < w.Vocab {
		note(fmt.Sprintf("%d tokens, fewer than %d: no further pair comes twice in the text", b.Len(), w.Vocab))
	}
	return path, t.write(path, b.Write)
}

// dataError is an error of data that stays until somebody changes that.
type dataError struct{ error }

func (e dataError) Is(target error) bool { return target == berth.ErrData }
func (e dataError) Unwrap() error        { return e.error }

// write writes a file of the job's folder, which appears whole or not at all, and reads it again.
func (t *task) write(path string, write func(io.Writer) error) error {
	sum := sha256.New()
	if err := rundir.WriteOwn(path, func(w io.Writer) error { return write(io.MultiWriter(w, sum)) }); err != nil {
		return err
	}
	if err := osfile.SyncDir(t.job.Dir); err != nil {
		return err
	}
	got, err := sumOf(path)
	if err == nil && got != hex.EncodeToString(sum.Sum(nil)) {
		err = fmt.Errorf("%s is not what was written: its SHA-256 is %s", path, got)
	}
	return err
}

// evaluate evaluates a run with its best weights.
func (t *task) evaluate(note func(string)) (path string, err error) {
	dir, err := t.daemon.given(&t.job, queue.AsRun, t.job.Work.Run)
	if err != nil {
		return "", err
	}
	text, _, err := rundir.ConfigText(dir)
	if err != nil {
		return "", err
	}
	c, err := configs.Parse(filepath.Join(dir, rundir.ConfigName), text, configs.Overlay{Set: t.job.Work.Set})
	if err != nil {
		return "", err
	}
	run, err := berth.OpenTrained(t.halted, c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: t.daemon.owned, Use: deviceIDs(t.devices)})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	found, err := run.Eval(t.halted)
	if err != nil {
		return "", err
	}
	for _, text := range append(run.Notes(), run.Warnings()...) {
		note(text)
	}
	u := run.Used()
	note(fmt.Sprintf("checkpoint %d of step %d of %s: %d samples, loss %.6g", u.ID, u.Step, dir, found.Samples, found.Loss))
	path = filepath.Join(t.job.Dir, EvalName)
	return path, t.write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(found) })
}

// export writes a run's best weights for other programs. What is there already is the same, from an attempt before this one
// that did not end well, or somebody else's.
func (t *task) export(note func(string)) (path string, err error) {
	w := t.job.Work
	dir, err := t.daemon.given(&t.job, queue.AsRun, w.Run)
	if err != nil {
		return "", err
	}
	write := func(path string) error {
		x, err := exporters[w.Format](t.halted, berth.Weights{Dir: dir}, path)
		if err != nil {
			return err
		}
		note(fmt.Sprintf("checkpoint %d of step %d of %s", x.Used.ID, x.Used.Step, dir))
		for _, text := range x.Notes {
			note(text)
		}
		return nil
	}
	if exporters[w.Format] == nil {
		return "", fmt.Errorf("%w: no format is called %q", berth.ErrOptions, w.Format)
	}
	if _, err := os.Lstat(w.Out); err == nil {
		return w.Out, t.same(w.Out, write)
	}
	if err := os.MkdirAll(filepath.Dir(w.Out), 0o777); err != nil {
		return "", err
	}
	if err := rundir.CheckOutput(w.Out, ""); err != nil {
		return "", err
	}
	return w.Out, write(w.Out)
}

// same refuses a file or folder that is not what write writes.
func (t *task) same(path string, write func(path string) error) (err error) {
	again := filepath.Join(t.job.Dir, "again")
	if err := os.RemoveAll(again); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(again)) }()
	if err := write(again); err != nil {
		return err
	}
	want, err := sumOf(again)
	if err != nil {
		return err
	}
	got, err := sumOf(path)
	if err == nil && got != want {
		err = fmt.Errorf("%s: %w: there is something else of that name: move it away", path, berth.ErrOutput)
	}
	return err
}

// given is the run folder that an input of a job gives, or else the one that the job names.
func (d *Daemon) given(j *queue.Job, as, dir string) (string, error) {
	for _, in := range j.Inputs {
		if in.As != as {
			continue
		}
		of, err := d.queue.Job(in.Job)
		if err != nil {
			return "", fmt.Errorf("input of the job: %w", err)
		}
		if of.Sweep != nil {
			return d.bestOf(&of)
		}
		return of.Dir, nil
	}
	return dir, nil
}

// firstWeights are the weights with which the job's training begins, as TrainOptions.Init has them; "": by rule. Those of
// an input are written to path.
func (t *task) firstWeights(path string) (string, error) {
	dir, err := t.daemon.given(&t.job, queue.AsInit, "")
	if err != nil || dir == "" {
		return t.job.Init, err
	}
	from, err := initial.ParseSource(t.job.Init) // what of the file is skipped
	if err != nil {
		return "", err
	}
	from.File = path
	_, err = berth.ExportSafetensors(t.halted, berth.Weights{Dir: dir}, path)
	return from.String(), err
}

// verifyInputs refuses files that are not what a job's inputs have made.
func (d *Daemon) verifyInputs(j *queue.Job) error {
	for _, in := range j.Inputs {
		of, err := d.queue.Job(in.Job)
		if err != nil {
			return fmt.Errorf("input of the job: %w", err)
		}
		for _, m := range of.Made {
			if in.As == "" {
				continue
			}
			sum, err := sumOf(m.Path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if sum != m.SHA256 {
				return fmt.Errorf("%w: %s is not any more what %s has made (SHA-256 %s): put that back, or submit anew", berth.ErrData, m.Path, named(&of), m.SHA256)
			}
		}
	}
	return nil
}

// sumOf is the SHA-256 of a file; of a folder, that of its files with their names.
func sumOf(path string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if name != path {
			rel, err := filepath.Rel(path, name)
			if err != nil {
				return err
			}
			st, err := e.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s\x00%d\x00", filepath.ToSlash(rel), st.Size())
		}
		f, err := osfile.Open(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, f)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
