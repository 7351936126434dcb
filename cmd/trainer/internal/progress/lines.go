package progress

import (
	"encoding/json"
	"io"
	"time"

	"github.com/berth-ml/berth"
)

// Lines tells a program of a training: a JSON object in each line. The names of fields
// are stable; docs/report.md lists them.
type Lines struct {
	out  io.Writer
	run  Run
	pace pace
	told time.Time // when a step was told last
}

// NewLines tells of run on out.
func NewLines(out io.Writer, run Run) *Lines { return &Lines{out: out, run: run} }

// The lines by event. A field that is null or absent has no value.
type (
	startLine struct {
		Event         string `json:"event"`
		Name          string `json:"name"`
		Parameters    int64  `json:"parameters"`
		Trained       int64  `json:"trained"`
		Samples       int    `json:"samples"`
		Step          int    `json:"step"`
		Steps         int    `json:"steps"`
		StepsPerEpoch int    `json:"steps_per_epoch"`
		Boundary      int    `json:"boundary,omitempty"`
		Stages        int    `json:"stages"`

		TokensPerSample float64 `json:"tokens_per_sample,omitempty"`
	}
	stepLine struct {
		Event        string   `json:"event"`
		Step         int      `json:"step"`
		Epoch        int      `json:"epoch"`
		Loss         *float64 `json:"loss,omitempty"`
		Over         int      `json:"over,omitempty"`
		LearningRate float64  `json:"learning_rate"`
		GradNorm     *float64 `json:"grad_norm,omitempty"`
		SamplesPerS  float64  `json:"samples_per_s,omitempty"`
		SecondsLeft  *float64 `json:"seconds_left,omitempty"`
	}
	boundaryLine struct {
		Event         string   `json:"event"`
		Step          int      `json:"step"`
		Epoch         int      `json:"epoch"`
		TrainLoss     *float64 `json:"train_loss,omitempty"`
		TrainAccuracy *float64 `json:"train_accuracy,omitempty"`
		ValLoss       *float64 `json:"val_loss,omitempty"`
		ValAccuracy   *float64 `json:"val_accuracy,omitempty"`
		RMSE          *float64 `json:"rmse,omitempty"`
		LearningRate  float64  `json:"learning_rate"`
		GradNorm      *float64 `json:"grad_norm,omitempty"`
		SamplesPerS   float64  `json:"samples_per_s"`
	}
	savedLine struct {
		Event      string  `json:"event"`
		Step       int     `json:"step"`
		Checkpoint uint64  `json:"checkpoint"`
		Bytes      int64   `json:"bytes"`
		Seconds    float64 `json:"seconds"`
	}
	textLine struct {
		Event string `json:"event"`
		Text  string `json:"text"`
	}
	endLine struct {
		Event  string        `json:"event"`
		Dir    string        `json:"run,omitempty"`
		Report *berth.Report `json:"report"`
	}
)

// Observer tells the lines about a training.
func (l *Lines) Observer() *berth.Observer {
	return &berth.Observer{
		Started: l.started, Step: l.step, Watched: func(s berth.Step) { l.loss("watch", s) },
		Logged: func(s berth.Step) {
			if l.run.LogEvery > 0 {
				l.loss("log", s)
			}
		},
		Boundary: l.boundary, Note: l.Note, Warn: func(text string) { l.write(textLine{"warning", text}) },
		Saved: func(s berth.Saved) { l.write(savedLine{"saved", s.Step, s.ID, s.Bytes, s.Time.Seconds()}) },
	}
}

// Note tells what a user should know.
func (l *Lines) Note(text string) { l.write(textLine{"note", text}) }

// End tells the outcome of the run in dir, without the losses: the report file has
// them.
func (l *Lines) End(r *berth.Report, dir string) {
	short := *r
	short.Losses = []float64{}
	l.write(endLine{"end", dir, &short})
}

// write writes a line. Who no longer reads gets none: the run is not affected.
func (l *Lines) write(line any) {
	b, err := json.Marshal(line)
	if err != nil {
		panic("BUG: a line of progress cannot be written: " + err.Error())
	}
	_, _ = l.out.Write(append(b, '\n'))
}

func (l *Lines) started(s berth.Start) {
	l.pace.begin(s, l.run.MaxSteps)
	l.write(startLine{"start", l.run.Name, s.Parameters, s.Trained, l.run.Samples, s.Step, s.Steps, s.StepsPerEpoch, s.Boundary, s.Stages, s.TokensPerSample})
}

// step tells of a step that was queued, at most once a second.
func (l *Lines) step(s berth.Step) {
	now := time.Now()
	l.pace.step(s, now)
	if now.Sub(l.told) < time.Second {
		return
	}
	l.told = now
	line := stepLine{Event: "step", Step: s.Step, Epoch: s.Epoch, LearningRate: s.LearningRate}
	if l.pace.known() {
		left := l.pace.left(s.Step).Seconds()
		line.SamplesPerS, line.SecondsLeft = l.pace.rate(), &left
	}
	l.write(line)
}

func (l *Lines) loss(event string, s berth.Step) {
	l.write(stepLine{Event: event, Step: s.Step, Epoch: s.Epoch, Loss: &s.Loss, Over: s.Over, LearningRate: s.LearningRate, GradNorm: s.GradNorm})
}

func (l *Lines) boundary(b berth.Boundary) {
	l.pace.boundary(b)
	line, err := json.Marshal(boundaryLine{
		"boundary", b.Step, b.Epoch, b.TrainLoss, b.TrainAccuracy, b.ValLoss, b.ValAccuracy, b.RMSE,
		b.LearningRate, b.GradNorm, b.SamplesPerS,
	})
	if err != nil {
		panic("BUG: a line of progress cannot be written: " + err.Error())
	}
	l.write(json.RawMessage(b.Metrics.AppendFields(line, "val_")))
}
