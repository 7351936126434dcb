package jobs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// let lets trials begin and go on, as many as there is room for. Those that another job has trained before take none.
func (d *Daemon) let(j *queue.Job, w *sweeper, jobs []*queue.Job, list []queue.Job) {
	room := d.atOnce(j, w.sweep)
	for _, t := range jobs {
		if t != nil && wants(t) {
			room--
		}
	}
	if room <= 0 {
		return
	}
	var fresh []queue.Submission
	var further []queue.Promotion
	same := byRecipe(list)
	for _, r := range w.decision.Ready {
		if room <= 0 {
			break
		}
		var as *queue.Result
		switch t := jobs[r.Trial-1]; {
		case t == nil:
			s, err := d.trialSubmission(j, w.sweep, r, same)
			if err != nil { // the next decision tries again
				return
			}
			fresh, as = append(fresh, s), s.As
		case t.Resting() && t.State == queue.Waiting:
			p := queue.Promotion{Job: t.ID, Rung: r.Rung, Share: shareOf(j, w.sweep, r.Rung), Dir: trialDir(j, r.Trial)}
			if t.As != 0 {
				p.As = trialAs(same[t.Recipe], w.sweep.Metric, (&trial{sweep: w.sweep, rung: r.Rung}).stepOf)
			}
			further, as = append(further, p), p.As
		default: // somebody has paused it
			continue
		}
		if as == nil {
			room--
		}
	}
	begun, _ := d.queue.SubmitAll(fresh) // where the disk is full, the next decision tries again
	on, _ := d.queue.Promote(further...)
	begun = append(begun, on...)
	before := 0
	for _, t := range begun {
		if t.As == 0 {
			continue
		}
		before++
		if t.State.Over() {
			d.over(t)
		}
	}
	if before > 0 {
		d.say(*j, fmt.Sprintf("trials that were trained before: %d", before))
		d.wake()
	}
}

// atOnce is how many trials may be under way.
func (d *Daemon) atOnce(j *queue.Job, s *configs.Sweep) int {
	return cmp.Or(s.AtOnce, sideBySide(j.Needs, d.usable()))
}

// sideBySide is how many jobs with the same needs devices have room for; at least 1.
func sideBySide(needs []order.Need, usable []order.Device) (most int) {
	for _, n := range needs {
		if most = count(usable, n.Kind) / n.Count; most > 0 {
			break
		}
	}
	return max(most, 1)
}

// shareOf is the share of a trial's steps up to a rung, by the longest trial.
func shareOf(j *queue.Job, s *configs.Sweep, rung int) float64 {
	return float64(sweep.Rungs(s, j.Sweep.Steps, j.Sweep.Boundary)[rung]) / float64(j.Sweep.Steps)
}

// trialName matches the names that trialDir gives.
var trialName = regexp.MustCompile(`^trial-\d{3,}$`)

// trialDir is the run folder of a trial that is trained.
func trialDir(j *queue.Job, number int) string {
	return filepath.Join(j.Dir, fmt.Sprintf("trial-%03d", number))
}

// trialSubmission asks for a trial. One of the jobs with the same recipe may have what it is to reach. Its key follows from the
// sweep's, so no trial is there twice.
func (d *Daemon) trialSubmission(j *queue.Job, s *configs.Sweep, r sweep.Ready, same map[string][]*queue.Job) (queue.Submission, error) {
	base, err := d.queue.Config(j.ID)
	if err != nil {
		return queue.Submission{}, err
	}
	q := queue.Submission{
		Key: fmt.Sprintf("%s/%d", j.Key(), r.Trial), Name: j.Name, Config: base, Dir: trialDir(j, r.Trial),
		Needs: j.Needs, Length: j.Sweep.Each, Memory: j.Memory, Host: j.Host, Data: j.Data, DataID: j.DataID,
		Trial: &queue.Trial{Sweep: j.ID, Number: r.Trial, Rung: r.Rung, Share: shareOf(j, s, r.Rung)},
	}
	for _, x := range r.Settings {
		q.Trial.Settings = append(q.Trial.Settings, queue.Setting(x))
	}
	if c, err := configs.Parse(j.Name, base, overlay(s, r.Settings)); err == nil { // otherwise the trial fails with that error
		if q.Needs, err = needs(c, d.usable()); err != nil {
			return queue.Submission{}, err
		}
		if q.Config, err = c.Kept(); err != nil {
			return queue.Submission{}, err
		}
		if q.Recipe, err = d.trialRecipe(c, j, s, q.Needs); err != nil {
			return queue.Submission{}, err
		}
	}
	if differs(s) { // other trials have other data
		q.DataID = q.Key
	}
	if !j.Again {
		q.As = trialAs(same[q.Recipe], s.Metric, (&trial{sweep: s, rung: r.Rung}).stepOf)
	}
	return q, nil
}

// trialRecipe is the recipe of a trial as far as it follows from the sweep's plan: not where trials have different data, or devices
// of several kinds. The trial knows it once its run is open.
func (d *Daemon) trialRecipe(c *configs.Config, j *queue.Job, s *configs.Sweep, needs []order.Need) (string, error) {
	if differs(s) || len(needs) != 1 || len(j.Needs) != 1 || needs[0].Kind != j.Needs[0].Kind {
		return "", nil
	}
	return d.recipe(j, c, j.DataID, j.Numerics, "")
}
