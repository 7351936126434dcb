package picture_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/partition/picture"
)

// wellFormed fails if a picture is not XML.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

// A schedule has a lane for each device. Actions without arithmetic, such as updates, are
// drawn too.
func TestScheduleSVG(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	s, err := r.Plan.ScheduleOf(r.Plan.Microbatches)
	if err != nil {
		t.Fatal(err)
	}
	text := picture.ScheduleSVG("digits <& co>", r.Plan, s.Simulate(r.Plan.ActionFlops()))
	wellFormed(t, text)
	actions := 0
	for _, row := range s.Rows {
		for _, a := range row {
			if actions++; !strings.Contains(text, "<title>"+a.String()+": ") {
				t.Errorf("%v is not drawn", a)
			}
		}
	}
	for _, says := range []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1: schedule ", ">cpu:0<", ">cpu:1<", " flops, devices idle "} {
		if !strings.Contains(text, says) {
			t.Errorf("%q is not in\n%s", says, text)
		}
	}
	if actions == 0 {
		t.Error("the schedule is empty")
	}
}

// A step is drawn twice, with one scale: the longer one ends at the right.
func TestStepSVG(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := picture.StepSVG("digits <& co>", r.Plan, x, 7, picture.Timeline{
		Launches: []picture.Launch{{Name: "s0.F0", Kind: schedule.Forward, Start: 0, End: 1e3}},
		Copies:   []picture.Copy{{Name: "<input>", Bytes: 64, From: "host", To: "cpu:0", End: 1}},
	})
	wellFormed(t, text)
	for _, w := range []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1", "Predicted", "Measured: step 7", "s1.FBU0: ", ">s0.F0<", "&lt;input&gt;, 64 B from host to cpu:0"} {
		if !strings.Contains(text, w) {
			t.Errorf("the picture lacks %q:\n%s", w, text)
		}
	}
	if n := strings.Count(text, ">1000 s<"); n != 2 {
		t.Errorf("%d of 2 scales end with the measured step", n)
	}
}

// The picture is well-formed, and names what the plan has.
func TestSVG(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := picture.SVG("digits <& co>", r.Plan, x)
	wellFormed(t, text)
	want := []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1", "stage 0 · cpu:0", "stage 1 · cpu:1", "s1.FBU"}
	for _, s := range r.Plan.Stages {
		want = append(want, s.Blocks...)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the picture lacks %q", w)
		}
	}
	if n := strings.Count(text, `stroke="`+string(svg.Limit)+`"`); n != 1 {
		t.Errorf("%d arrows cross the one cut", n)
	}
}

// Copies that pass through the host are drawn and explained as such, and there are no
// others between devices of two kinds.
func TestHostedCopies(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	x, err := r.Plan.Predict(nil)
	if err != nil || len(x.Copies) == 0 {
		t.Fatal(len(x.Copies), err)
	}
	for _, hosted := range []bool{false, true} {
		for i := range x.Copies {
			x.Copies[i].Hosted = hosted
		}
		text := picture.SVG("digits", r.Plan, x)
		if got := strings.Contains(text, " to cpu:1 through the host") && strings.Contains(text, "copy between kinds of devices, through the host"); got != hosted {
			t.Errorf("through the host: drawn is %v, expected %v", got, hosted)
		}
		if got := strings.Contains(text, ">copy between devices<"); got == hosted {
			t.Errorf("between devices: explained is %v, with hosted %v", got, hosted)
		}
	}
}
