package rundir

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
)

// State says whether a folder holds a run.
type State uint8

// The states of a folder.
const (
	None       State = iota // no folder, or no checkpoint in it
	Unfinished              // steps, or the last epoch's evaluation, are left
	Finished                // all steps are taken, or the run stopped early
)

// Status is how far the run in a folder came, by its newest checkpoint.
type Status struct {
	State State
	Step  int // steps taken
	Total int // steps of the whole run; 0: not known
}

// StatusOf reads the status of a folder, and changes nothing in it. It reads
// manifests, not tensors. The error is checkpoint.ErrHeld while a run trains
// there, and checkpoint.ErrDamaged where no checkpoint can be read.
func StatusOf(dir string) (Status, error) {
	var st Status
	err := newest(dir, false, func(db *checkpoint.DB, m checkpoint.Manifest) (err error) {
		st, err = statusAt(db, m)
		return err
	})
	if errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, ErrNoCheckpoint) {
		return Status{}, nil
	}
	return st, advised(dir, err)
}

// statusAt is the status at a checkpoint.
func statusAt(db *checkpoint.DB, m checkpoint.Manifest) (Status, error) {
	saved, err := runstate.Of(&m)
	if err != nil {
		return Status{}, err
	}
	c, err := configs.Parse("the config of the newest checkpoint", m.Config, configs.Overlay{})
	if err != nil {
		return Status{}, err
	}
	return statusOf(db, m, saved, c)
}

// statusOf is the status at a checkpoint whose state and config were read.
func statusOf(db *checkpoint.DB, m checkpoint.Manifest, saved runstate.State, c *configs.Config) (Status, error) {
	snap, err := db.Load(m.ID)
	if err != nil {
		return Status{}, err
	}
	at := saved.Progress
	at.Step, at.Epoch, at.Index = m.Step, m.Epoch, m.Index
	st := Status{State: Unfinished, Step: at.Step}
	steps := saved.EpochSteps
	if ring, ok := snap.Tensor(models.LossRing); ok && steps == 0 {
		steps = ring.Meta.Shape.Elems()
	}
	if steps > 0 {
		st.Total = at.Resume(runstate.PaceOf(c.Train, steps, c.Train.Batch))
	}
	if !at.Unmeasured && (at.Over(c.Train) || at.StoppedEarly(c.EarlyStopping)) {
		st.State = Finished
	}
	return st, nil
}

// Condition is what became of a run.
type Condition string

// The conditions.
const (
	New       Condition = "new"      // it has a checkpoint, and has taken no step
	Running   Condition = "running"  // a process trains it, or has its checkpoints open for another change
	Stopped   Condition = "stopped"  // it has steps left, and its last call ended as it should
	Failed    Condition = "failed"   // it has steps left, and its last call ended by an error, or was killed
	Completed Condition = "finished" // all steps are taken, or it stopped early

	// Unreadable: its checkpoints cannot be read, or one of its files is a link or no plain file. Problem says why.
	Unreadable Condition = "unreadable"
)

// Summary is what a run folder shows without its tensors.
type Summary struct {
	Condition   Condition
	Config      *configs.Config // nil: it cannot be read
	Step, Total int             // steps taken, and of the whole run; Total 0: not known
	Epoch       int             // epochs finished
	EpochSteps  int             // steps of an epoch; 0: not known
	Classes     []string        // names of the data's classes, where they have names
	Checkpoints int             // whole manifests
	Saved       []int           // the steps of those, oldest first
	Newest      *checkpoint.Manifest
	BestID      uint64             // the best of the checkpoints; 0: none has the metric
	Best        checkpoint.Best    // the best value so far, of which the checkpoint may be gone
	BestValues  map[string]float64 // metrics of the best of the checkpoints
	Last        Record             // the newest boundary
	Measured    bool               // there is one
	Test        *Test              // of a run that is finished; nil: it has no test part, or its report is gone
	Bytes       int64              // of the run's files
	Changed     time.Time          // when one of them was written last
	Problem     error              // of its checkpoints, or ErrNotPlain of another file; nil: they can be read

	text []byte // that Config was parsed from, as the folder has it
}

// Summarize reads what a run folder shows. It changes nothing, and a run may train
// there meanwhile.
func Summarize(dir string) *Summary { return SummarizeAgain(dir, nil) }

// SummarizeAgain is Summarize of a folder that was summarized before; nil: it was not. Both summaries may share a Config, where
// the folder's has not changed: parsing it takes a quarter of the time.
func SummarizeAgain(dir string, before *Summary) *Summary {
	dir = osfile.Resolve(dir)
	s := &Summary{}
	s.measure(dir)
	if s.Problem = notRead(dir); s.Problem != nil {
		s.Condition = Unreadable
		return s
	}
	s.Last, s.Measured = LastBoundary(dir)
	text, unread := osfile.Read(filepath.Join(dir, ConfigName), configs.MaxFile+1)
	switch {
	case unread != nil:
	case before != nil && before.text != nil && bytes.Equal(text, before.text):
		s.Config, s.text = before.Config, text
	default:
		if c, err := configs.Parse(ConfigName, text, configs.Overlay{}); err == nil {
			s.Config, s.text = c, text
		}
	}
	state, held := s.readCheckpoints(dir, text)
	s.Condition = s.conditionOf(dir, state, held)
	if s.Condition == Completed && s.Newest != nil {
		s.Test = reportedTest(dir, s.Newest.Step)
	}
	if s.Measured && s.Last.Step > s.Step { // the run saves it, or did not any more
		s.Step = s.Last.Step
		if s.Config != nil && s.Config.Train.Boundary == 0 {
			s.Epoch = s.Last.Epoch + 1
		}
	}
	return s
}

// readCheckpoints reads the checkpoints of a folder into s, and its config where s has none. text is that of the folder's
// config. It opens the file once: a table of a thousand runs waits for a thousand files. held says that somebody trains,
// which the lock decides.
func (s *Summary) readCheckpoints(dir string, text []byte) (state State, held bool) {
	path := CheckpointPath(dir)
	db, err := checkpoint.Open(path, checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if err != nil {
		if _, unseen := os.Lstat(path); errors.Is(unseen, fs.ErrNotExist) {
			return None, false
		}
		if !errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrDamaged) {
			s.Problem = err
		}
		_, err = StatusOf(dir) // is it the lock?
		return None, errors.Is(err, checkpoint.ErrHeld)
	}
	list, skipped, err := db.List()
	if len(skipped) > 0 && err == nil {
		err = skipped[0].Err
	}
	s.Checkpoints, s.BestID = len(list), checkpoint.BestOf(list)
	for _, m := range list {
		s.Saved = append(s.Saved, m.Step)
		if m.ID == s.BestID {
			s.BestValues = m.Metrics
		}
	}
	if len(list) > 0 {
		state = s.readNewest(db, list[len(list)-1], text)
	}
	held = db.Beside()
	s.Problem = errors.Join(err, db.Close())
	return state, held
}

// readNewest takes what the newest checkpoint says.
func (s *Summary) readNewest(db *checkpoint.DB, m checkpoint.Manifest, text []byte) State {
	s.Newest, s.Best, s.Step, s.Epoch = &m, m.Best, m.Step, m.Epoch
	c := s.Config
	if c == nil || !bytes.Equal(m.Config, text) {
		c, _ = configs.Parse(ConfigName, m.Config, configs.Overlay{})
	}
	if s.Config == nil {
		s.Config = c
	}
	saved, err := runstate.Of(&m)
	if err != nil {
		return None
	}
	s.EpochSteps, s.Classes = saved.EpochSteps, saved.Data.ClassNames
	if c == nil {
		return None
	}
	st, err := statusOf(db, m, saved, c)
	if err != nil {
		return None
	}
	s.Total = st.Total
	return st.State
}

// conditionOf is the condition of a run whose newest checkpoint is in a state.
func (s *Summary) conditionOf(dir string, state State, held bool) Condition {
	switch {
	case held:
		return Running
	case state == Finished:
		return Completed
	case s.Newest != nil && s.Step == 0 && !s.Measured:
		return New
	case s.Newest == nil && s.Problem != nil:
		return Unreadable
	case s.Newest == nil && s.Measured:
		return reportedCondition(dir, s.Last.Step)
	case s.Newest == nil || checkpoint.Abandoned(CheckpointPath(dir)):
		return Failed
	}
	if steps, _, ok := reported(dir); ok && steps == s.Newest.Step {
		return Stopped
	}
	return Failed
}

// reportedCondition is that of a run without checkpoints, which were deleted if its last call ended with a
// report of its newest step.
func reportedCondition(dir string, step int) Condition {
	switch steps, finished, ok := reported(dir); {
	case !ok || steps != step:
		return Failed
	case finished:
		return Completed
	}
	return Stopped
}

var reportHead = regexp.MustCompile(`^\{\s*"steps":\s*(\d+)(?:,\s*"epochs":\s*\d+,\s*"finished":\s*(true|false))?`)

// reported are the steps of report.json, which a call writes at its end unless it fails, and whether the run is
// over.
func reported(dir string) (steps int, finished, ok bool) {
	text, err := osfile.Read(filepath.Join(dir, ReportName), 1<<10)
	if err != nil {
		return 0, false, false
	}
	m := reportHead.FindSubmatch(text)
	if m == nil {
		return 0, false, false
	}
	n, err := strconv.Atoi(string(m[1]))
	return n, string(m[2]) == "true", err == nil
}

// measure takes the sizes and times of the run's files.
func (s *Summary) measure(dir string) {
	for _, name := range append(eventFiles(dir), ownFiles...) {
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		s.Bytes += st.Size()
		if st.ModTime().After(s.Changed) {
			s.Changed = st.ModTime()
		}
	}
}

// Value is a metric of the newest boundary, or of the newest checkpoint where
// metrics.jsonl lacks it; NaN where there is none.
func (s *Summary) Value(name string) float64 {
	if v, ok := s.Last.Values[name]; ok {
		return v
	}
	if s.Newest != nil {
		if v, ok := s.Newest.Metrics[name]; ok {
			return v
		}
	}
	return math.NaN()
}
