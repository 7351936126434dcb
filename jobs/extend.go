package jobs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// continued finds the sweep that goes on with a submission: the newest one of the same config, text and data in the same place
// that has fewer trials, or as many and is not over, or in the very folder that is asked for. q gets the text with all trials,
// and what they take. nil: the submission is a sweep of its own; where it has as many trials as the newest one, they are halved as
// there.
func (d *desk) continued(s Submission, q *queue.Submission) (*queue.Job, error) {
	now, err := configs.ParseSweep("submitted sweep", []byte(s.Sweep))
	if err != nil || s.Again || len(s.After) > 0 {
		return nil, err
	}
	list := d.queue.Jobs()
	for i := range slices.Backward(list) {
		j := &list[i]
		if j.Sweep == nil || j.State == queue.Failed || j.State == queue.Cancelled || j.Name != q.Name || j.DataID != q.DataID || !placed(s, j) {
			continue
		}
		config, err := d.queue.Config(j.ID)
		if err != nil {
			return nil, err
		}
		then, err := parseSweep(j)
		if err != nil || !bytes.Equal(config, q.Config) {
			continue
		}
		all, err := now.Continues(then)
		if err != nil {
			return nil, err
		}
		if all == nil {
			continue
		}
		text, err := all.YAML()
		if err != nil {
			return nil, err
		}
		q.Sweep.Text = string(text)
		outlook(q, all)
		if all.Total() == then.Total() && j.State.Over() && cleaned(s.Dir) != j.Dir {
			q.Sweep.Submitted = []queue.Submitted{{Key: s.Key, Text: s.Sweep}}
			return nil, nil
		}
		return j, nil
	}
	return nil, nil
}

// placed says whether a submission asks for the folder of a job, or for the kind of folder that it is. A job that is over may
// have lost its folder; one that is not makes it.
func placed(s Submission, j *queue.Job) bool {
	if _, err := os.Stat(j.Dir); err != nil && j.State.Over() {
		return false
	}
	return cleaned(s.Dir) == j.Dir || s.Dir == "" && filepath.Dir(j.Dir) == cleaned(s.Parent)
}

// outlook foretells how long a sweep with the trials of s takes at most, and how much of the disk.
func outlook(q *queue.Submission, s *configs.Sweep) {
	q.Length = lengthOf(s, q.Sweep)
	q.Sweep.Disk = int64(sweep.Checkpoints(s, cmp.Or(s.AtOnce, q.Sweep.AtOnce)))*q.Sweep.Checkpoints + int64(s.Total())*q.Sweep.Files
}

// room is replaced by tests.
var room = osfile.Room

// checkRoom refuses trials whose files have no room on the disk of a folder.
func checkRoom(takes int64, dir string) error {
	if free, known := room(dir); known && free < takes {
		return fmt.Errorf("the trials take up to %s of the disk, and %s has %s: keep checkpoints of fewer trials (--keep), or fewer of each (checkpoint.keep.last), or name a folder on another disk (--run)",
			units.Bytes(takes), dir, units.Bytes(free))
	}
	return nil
}

// lengthOf is what a sweep takes at most.
func lengthOf(s *configs.Sweep, of *queue.Sweep) time.Duration {
	steps, _ := sweep.Most(s, []sweep.Length{{Steps: of.Steps, Boundary: of.Boundary}})
	return time.Duration(float64(of.Each) * float64(steps) / float64(of.Steps))
}
