package queued

import (
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// Record is a job as --json prints it, and as the command of --on-end has it on its input.
type Record struct {
	ID       int      `json:"id"`
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Wish     string   `json:"wish"`
	Priority int      `json:"priority"`
	Run      string   `json:"run"`
	Step     int      `json:"step"`
	Steps    int      `json:"steps"` // 0: not known yet
	Loss     *float64 `json:"loss,omitempty"`

	As    int `json:"as,omitempty"`    // the job whose run it is: that was finished before
	Sweep int `json:"sweep,omitempty"` // the job of the sweep whose trial it is
	Trial int `json:"trial,omitempty"` // its number there

	Pipeline int     `json:"pipeline,omitempty"`  // the job of the pipeline whose step it is
	StepName string  `json:"step_name,omitempty"` // its name there
	Inputs   []input `json:"inputs,omitempty"`
	Made     []made  `json:"made,omitempty"`

	Where  string     `json:"where,omitempty"`
	Ends   *time.Time `json:"ends,omitempty"`
	Needs  []need     `json:"needs"`
	Memory int64      `json:"memory_bytes"`
	Host   int64      `json:"host_bytes"` // with its data
	Data   int64      `json:"data_bytes"`

	Predicted float64 `json:"predicted_seconds"`
	Length    float64 `json:"length_seconds,omitempty"`
	Left      float64 `json:"left_seconds,omitempty"`

	Submitted time.Time `json:"submitted"`
	Since     time.Time `json:"-"` // since when it waits: queue.Job.WaitsSince
	PausedAt  time.Time `json:"paused_at,omitzero"`
	Suspect   bool      `json:"suspect,omitempty"`
	Retries   int       `json:"retries"`
	Attempts  []attempt `json:"attempts,omitzero"` // those of a list of jobs lack both
	Events    []event   `json:"events,omitzero"`

	Varied *Varied `json:"-"` // of a sweep that a Lister lists
	Tried  *Tried  `json:"-"` // of a trial that a Lister lists
}

type input struct {
	Job int    `json:"job"`
	As  string `json:"as,omitempty"` // init, run or data.tokenizer
}

type made struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

type need struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

type attempt struct {
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Devices []string  `json:"devices"`
	Error   string    `json:"error,omitempty"`
	Code    int       `json:"code"`
}

type event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

func recordOf(v *jobs.View) Record {
	r := Record{
		ID: v.ID, Name: v.Name, State: string(v.State), Wish: string(v.Wish), Priority: v.Priority, Run: v.Dir,
		Step: v.Step, Steps: v.Steps, Loss: v.Loss, Where: v.Where, Ends: v.Ends, Memory: v.Memory, Host: v.Host + v.Data, Data: v.Data,
		Predicted: v.Predicted.Seconds(), Length: v.Length.Seconds(), Left: v.Left.Seconds(),
		As: v.As, Submitted: v.Submitted, Since: v.WaitsSince(), PausedAt: v.PausedAt, Suspect: v.Suspect, Retries: v.Retries, Needs: []need{},
		Attempts: []attempt{}, Events: []event{},
	}
	if t := v.Trial; t != nil {
		r.Sweep, r.Trial = t.Sweep, t.Number
	}
	if s := v.StepOf; s != nil {
		r.Pipeline, r.StepName = s.Pipeline, s.Name
	}
	for _, in := range v.Inputs {
		r.Inputs = append(r.Inputs, input(in))
	}
	for _, m := range v.Made {
		r.Made = append(r.Made, made(m))
	}
	for _, n := range v.Needs {
		r.Needs = append(r.Needs, need{n.Kind, n.Count})
	}
	for _, a := range v.Attempts {
		r.Attempts = append(r.Attempts, attempt{a.Began, a.Ended, a.Devices, a.Error, a.Code})
	}
	for _, e := range v.Events {
		r.Events = append(r.Events, event(e))
	}
	return r
}

// listedRecord is recordOf for a list of jobs. It lacks what grows with a job's age: show has that.
func listedRecord(v *jobs.View) Record {
	r := recordOf(v)
	r.Attempts, r.Events = nil, nil
	return r
}

// InitFrom is the job with whose weights the job begins; 0: none.
func (r *Record) InitFrom() int {
	for _, in := range r.Inputs {
		if in.As == queue.AsInit {
			return in.Job
		}
	}
	return 0
}

// Resting is the job as one that rests; nil: it does not.
func (r *Record) Resting() *overview.Resting {
	if r == nil {
		return nil
	}
	return overview.RestingOf(r.ID, r.Run, queue.State(r.State))
}
