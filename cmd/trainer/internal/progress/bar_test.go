package progress

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
)

// A note names both keys where losses are more than 20 s away, and a boundary that
// brings them every ten seconds or so.
func TestFarText(t *testing.T) {
	for _, c := range []struct {
		boundary, steps int
		after           berth.Step
		took            time.Duration
		want            string
	}{
		{0, 1000, berth.Step{Step: 50, InEpoch: 50}, 2 * time.Second, "the 1000 steps of an epoch take about 0:40, and losses come out after them: --watch (train.watch) shows some before,\ntrain.boundary: 200 brings"},
		{0, 1000, berth.Step{Step: 150, InEpoch: 150}, 2 * time.Second, ""},
		{500, 1000, berth.Step{Step: 20}, 2 * time.Second, "500 steps take about 0:50, and"},
		{500, 1000, berth.Step{Step: 200}, 2 * time.Second, ""},
	} {
		p := New(&bytes.Buffer{}, Run{Samples: 8000, Batch: 8})
		p.start = berth.Start{Epochs: 2, StepsPerEpoch: c.steps, Steps: 2 * c.steps, Boundary: c.boundary}
		if got := p.farText(c.after, c.took); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Each line is an object with its event, and warnings and losses are among them.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out, Run{Name: "r", LogEvery: 1})
	o, loss := l.Observer(), 0.5
	o.Started(berth.Start{Steps: 9})
	o.Step(berth.Step{Step: 1, Loss: math.NaN()})
	l.told = l.told.Add(time.Hour) // however slow this test is, the next step comes within a second
	o.Step(berth.Step{Step: 2, Loss: math.NaN()})
	o.Watched(berth.Step{Step: 1, Loss: 2})
	o.Logged(berth.Step{Step: 2, Loss: 1})
	o.Boundary(berth.Boundary{Step: 3, ValLoss: &loss})
	o.Saved(berth.Saved{Step: 3, ID: 1})
	o.Warn("w")
	o.Note("n")
	l.End(&berth.Report{Steps: 3, Losses: []float64{1, 2, 3}}, "dir")
	var events []string
	for line := range strings.Lines(out.String()) {
		var x struct{ Event string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		events = append(events, x.Event)
	}
	if got := strings.Join(events, " "); got != "start step watch log boundary saved warning note end" {
		t.Error(got)
	}
}
