package queued

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/socket"
)

// Varied is what makes a job a sweep.
type Varied struct {
	Metric string      `json:"metric"`          // that ranks trials
	Lower  bool        `json:"lower,omitempty"` // lower is better
	Trials int         `json:"trials"`          // in all, with those that have not begun
	Vary   []Dimension `json:"vary"`
}

// Dimension is a key that varies. Either it has Values, or it is a range.
type Dimension struct {
	Key    string   `json:"key"`
	Values []string `json:"values,omitempty"`
	Lo     float64  `json:"lo"`
	Hi     float64  `json:"hi"`
	Log    bool     `json:"log,omitempty"`   // even by magnitude
	Whole  bool     `json:"whole,omitempty"` // whole numbers
}

// Tried is what makes a job a trial.
type Tried struct {
	Settings []string // values of the keys that vary, in their order
	Value    *float64 // the newest of the sweep's metric; nil: none, or not finite
	Out      bool     // others are better
}

// variedOf is the sweep with a text; nil where that cannot be read.
func variedOf(text string) *Varied {
	s, err := configs.ParseSweep("sweep", []byte(text))
	if err != nil {
		return nil
	}
	v := &Varied{Metric: s.Metric, Lower: configs.LowerIsBetter(s.Metric), Trials: s.Total()}
	for i := range s.Vary {
		d := &s.Vary[i]
		v.Vary = append(v.Vary, Dimension{d.Key, d.Values, d.Lo, d.Hi, d.Log, d.Whole})
	}
	return v
}

// vary fills in what makes jobs sweeps and trials. A sweep whose text stands as before is not read again.
func (l *Lister) vary(list []Record, views []jobs.View) {
	known := map[string]*Varied{}
	for i := range views {
		v := &views[i]
		if v.Sweep != nil {
			key := fmt.Sprint(v.ID, " ", v.Sweep.Text)
			s, ok := l.sweeps[key]
			if !ok {
				s = variedOf(v.Sweep.Text)
			}
			known[key], list[i].Varied = s, s
		}
		if t := v.Trial; t != nil {
			tried := &Tried{Out: t.Out}
			for _, x := range t.Settings {
				tried.Settings = append(tried.Settings, x.Value)
			}
			if n := len(t.Values); n > 0 {
				tried.Value = t.Values[n-1]
			}
			list[i].Tried = tried
		}
	}
	l.sweeps = known
}

// Config is the config of a job, as it was resolved when it was submitted; of a sweep, that of all trials. It may be called beside
// List.
func (l *Lister) Config(ctx context.Context, id int) (string, error) {
	path, err := queuePath()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, aside)
	defer cancel()
	client, err := socket.Dial(ctx, socket.Path(path), socket.ThisProgram(l.version))
	if errors.Is(err, socket.ErrNoDaemon) {
		file, err := jobs.OpenLocal(path)
		if err != nil {
			return "", err
		}
		text, err := file.Config(id)
		return string(text), errors.Join(err, file.Close())
	}
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.Config(ctx, id)
}
