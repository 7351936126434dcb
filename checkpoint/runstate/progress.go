package runstate

import (
	"cmp"
	"maps"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
)

// Progress is where a run stands. Fields without a JSON name are part of the
// checkpoint format.
type Progress struct {
	Step         int // steps taken
	Epoch, Index int // data cursor: the epoch, and samples of it already read
	Saved        int `json:"-"`          // step of the newest checkpoint
	Logged       int `json:"-"`          // newest step whose loss was logged: the metrics file knows
	Began        int `json:"-"`          // steps taken at the boundary before, had each epoch always had today's batches
	Lines        int `json:",omitempty"` // lines of steps that the metrics file had, at least; older checkpoints lack it
	Lost         int // the device's rings hold nothing of steps up to this one
	NormsLost    int `json:",omitempty"` // the same for the ring of gradient norms, which older checkpoints lack
	Imported     int // newest step whose weights were replaced by a file's; 0: none
	OtherClass   int `json:",omitempty"` // values about the positive class up to this step are about another one; 0: none are
	Changed      int `json:",omitempty"` // weights up to this step were trained otherwise than the config says, such as on another part of the data; 0: none were
	Best         checkpoint.Best
	Watched      Watched
	Last         Boundary // the newest boundary
	Unmeasured   bool     `json:",omitempty"` // the last step ends at a boundary whose metrics are missing: a device was lost before
}

// Cursor is the place in the data.
func (p *Progress) Cursor() datasets.Cursor { return datasets.Cursor{Epoch: p.Epoch, Index: p.Index} }

// Advance counts the step that took a batch.
func (p *Progress) Advance(b datasets.Batch, l Pace) {
	if l.Boundary == 0 && b.At.Index == 0 || l.Boundary > 0 && p.Step%l.Boundary == 0 {
		p.Began = p.Step
	}
	p.Step++
	p.Epoch, p.Index = b.Next.Epoch, b.Next.Index
}

// LastEpoch is the epoch of the last step, from 0.
func (p *Progress) LastEpoch() int {
	if p.Index > 0 {
		return p.Epoch
	}
	return max(0, p.Epoch-1)
}

// Resume finds the boundary before. It returns the steps that the whole run takes.
func (p *Progress) Resume(l Pace) (total int) {
	done := p.Index / l.Batch // steps of this epoch
	since := done             // steps since the boundary
	if l.Boundary > 0 {
		since = p.Step % l.Boundary
	}
	if since == 0 && p.Unmeasured {
		since = cmp.Or(l.Boundary, l.Epoch)
	}
	p.Began = p.Step - since
	if l.Steps > 0 {
		return l.Steps
	}
	return p.Step + max(0, l.Epochs-p.Epoch)*l.Epoch - done
}

// Over reports whether a run of that length has taken its last step.
func (p *Progress) Over(t configs.Train) bool {
	if t.Steps > 0 {
		return p.Step >= t.Steps
	}
	return p.Epoch >= t.Epochs
}

// AtBoundary reports whether the last step ends at a boundary, in a run of so many
// steps.
func (p *Progress) AtBoundary(l Pace, total int) bool {
	switch {
	case p.Step == total:
		return true
	case l.Boundary > 0:
		return p.Step%l.Boundary == 0
	}
	return p.Index == 0
}

// PlaceOf is the epoch of a step that was taken, from 0, and its number in that
// epoch, from 1.
func (p *Progress) PlaceOf(step int, l Pace) (epoch, inEpoch int) {
	began := p.Step - p.Index/l.Batch // the step before the first of epoch p.Epoch
	back := max(0, (began-step+l.Epoch)/l.Epoch)
	return p.Epoch - back, step - began + back*l.Epoch
}

// Realign moves the run to the next epoch where its place is not the beginning
// of a batch, and reports whether it did. A run on other data has no place in
// an epoch that began.
func (p *Progress) Realign(sameData bool, batch, samples int) bool {
	fits := sameData && p.Index%batch == 0 && p.Index < samples
	if p.Index == 0 || fits {
		return false
	}
	p.Epoch, p.Index = p.Epoch+1, 0
	return true
}

// Metrics are the finite ones of the weights as they are: of the boundary at this
// step, or none.
func (p *Progress) Metrics() map[string]float64 {
	if p.Last.Step != p.Step {
		return nil
	}
	named := p.Last.Named()
	maps.DeleteFunc(named, func(_ string, v float64) bool { return !finite(v) })
	return named
}

// Take takes a boundary's metrics in: the best value so far, and that of early
// stopping.
func (p *Progress) Take(e Boundary, c *configs.Config) {
	p.Last, p.Unmeasured = e, false
	named, best := e.Named(), c.Checkpoint.Best
	if v, ok := named[best]; ok && improves(best, v, p.Best.Value, 0, p.Best.Metric == best) {
		p.Best = checkpoint.Best{Metric: best, Value: v, Step: e.Step, Minimize: configs.LowerIsBetter(best)}
		p.Best.Since = p.Changed
		if AboutPositive(best) {
			p.Best.Since = max(p.Changed, p.OtherClass)
		}
	}
	es := c.EarlyStopping
	if v, ok := named[es.Metric]; ok && es.Patience > 0 {
		p.Watched.take(es, v)
	}
}

// AnotherPositive notes that later values about the positive class are about another one. The best value
// and that of early stopping begin anew where they are about it, and anew says whether one does.
func (p *Progress) AnotherPositive(c *configs.Config) (anew bool) {
	p.OtherClass = p.Step
	if AboutPositive(c.Checkpoint.Best) {
		p.Best, anew = checkpoint.Best{}, true
	}
	if es := c.EarlyStopping; AboutPositive(es.Metric) {
		p.Watched, anew = Watched{}, anew || es.Patience > 0
	}
	return anew
}

// Anew notes that the weights so far were trained otherwise than the config now says. None of their checkpoints is
// the best any more, and early stopping begins anew; anew says whether there was a value of one of the two.
func (p *Progress) Anew() (anew bool) {
	anew = p.Best != checkpoint.Best{} || p.Watched != Watched{}
	p.Changed, p.Best, p.Watched = p.Step, checkpoint.Best{}, Watched{}
	return anew
}

// AboutPositive reports whether a metric is about the positive class.
func AboutPositive(metric string) bool {
	name := configs.MetricOf(metric)
	return name == "average_precision" || strings.HasSuffix(name, "_positive")
}

// StoppedEarly reports whether the watched metric has not improved for as many
// boundaries as the config is patient.
func (p *Progress) StoppedEarly(es configs.EarlyStopping) bool {
	return es.Patience > 0 && p.Watched.Metric == es.Metric && p.Watched.Bad >= es.Patience
}
