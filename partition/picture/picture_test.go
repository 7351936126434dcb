package picture_test

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/svg/svgtest"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/picture"
)

// A schedule has a lane for each device. Actions without arithmetic, such as updates, are
// drawn too.
func TestScheduleSVG(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	s, err := r.Plan.ScheduleOf(r.Plan.Microbatches)
	if err != nil {
		t.Fatal(err)
	}
	text := picture.ScheduleSVG("digits <& co>", r.Plan, s.Simulate(r.Plan.ActionFlops()))
	svgtest.Check(t, text)
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
		Launches: []picture.Launch{{Name: "s0.F0", Kinds: []schedule.Kind{schedule.Forward}, Start: 0, End: 1e3}},
		Copies:   []picture.Copy{{Name: "<input>", Bytes: 64, From: "host", To: "cpu:0", End: 1}},
	})
	svgtest.Check(t, text)
	for _, w := range []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1", "Predicted", "Measured: step 7", "s1.FBU0: ", ">s0.F0<", "&lt;input&gt;, 64 B from host to cpu:0"} {
		if !strings.Contains(text, w) {
			t.Errorf("the picture lacks %q:\n%s", w, text)
		}
	}
	if n := strings.Count(text, ">16 min<"); n != 2 {
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
	svgtest.Check(t, text)
	want := []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1", "stage 0 · cpu:0", "stage 1 · cpu:1", "s1.FBU"}
	for _, s := range r.Plan.Stages {
		want = append(want, s.Blocks...)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the picture lacks %q", w)
		}
	}
	if n := strings.Count(text, `stroke="`+string(svg.Vermilion)+`"`); n != 1 {
		t.Errorf("%d arrows cross the one cut, in the colour of copies between devices", n)
	}
	soon, apart := *x, *x
	soon.Seconds, apart.Seconds = x.Seconds/2, 2*x.Seconds
	if say := "; the next step begins "; !strings.Contains(picture.SVG("x", r.Plan, &soon), say) || strings.Contains(picture.SVG("x", r.Plan, &apart), say) {
		t.Error("the title does not say whether steps overlap")
	}
	// What a pass makes in memory has its colour.
	for made, fill := range map[string]svg.Color{"activations": svg.Blue, "gradients": svg.Green, "optimizer state": svg.Orange} {
		if !strings.Contains(text, `fill="`+string(fill)+`"><title>`+made+" ") {
			t.Errorf("%s have not the colour of their pass", made)
		}
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

// A launch of several passes has the colour of each, which the legend explains: the backward
// pass between those before and after it.
func TestPassesTogether(t *testing.T) {
	r := smallrun.New(t, "cpu")
	f, b, u := schedule.Forward, schedule.Backward, schedule.Update
	for name, x := range map[string]struct {
		kinds []schedule.Kind
		want  []svg.Color // from the top
	}{
		"s0.F0":   {[]schedule.Kind{f}, []svg.Color{svg.Blue}},
		"s0.U0":   {[]schedule.Kind{u}, []svg.Color{svg.Orange}},
		"s0.FB0":  {[]schedule.Kind{f, b}, []svg.Color{svg.Blue, svg.Green}},
		"s0.BU0":  {[]schedule.Kind{b, u}, []svg.Color{svg.Green, svg.Orange}},
		"s0.FBU0": {[]schedule.Kind{f, b, u}, []svg.Color{svg.Blue, svg.Green, svg.Orange}},
	} {
		text := picture.StepSVG("digits", r.Plan, &partition.Prediction{}, 1, picture.Timeline{
			Launches: []picture.Launch{{Name: name, Kinds: x.kinds, End: 10e-3}},
		})
		svgtest.Check(t, text)
		for _, fill := range x.want {
			if n := strings.Count(text, `fill="`+string(fill)+`"`); n != 2 {
				t.Errorf("%s: %d areas have the colour %s, expected one of the launch and one of the legend", name, n, fill)
			}
		}
		if n := strings.Count(text, "<title>"+name+": "); n != len(x.want) {
			t.Errorf("%s: %d areas, expected %d", name, n, len(x.want))
		}
	}
}

// A launch is drawn where it works. Between two parts of its work there is a thin line, which
// the legend explains. Before the first one there is nothing: the step begins with work.
func TestWaitsAreGaps(t *testing.T) {
	r := smallrun.New(t, "cpu")
	draw := func(waits ...partition.Wait) string {
		text := picture.StepSVG("digits", r.Plan, &partition.Prediction{}, 1, picture.Timeline{
			Launches: []picture.Launch{{Name: "s0.F0", Kinds: []schedule.Kind{schedule.Forward}, Start: 0, End: 10e-3, Waits: waits}},
		})
		svgtest.Check(t, text)
		return text
	}
	blocks := func(text string) int {
		return strings.Count(text, `fill="`+string(svg.Blue)+`"`) - 1 // of the legend
	}
	const words = "a launch waits for an input"
	if text := draw(); blocks(text) != 1 || strings.Contains(text, words) {
		t.Errorf("without waits: %d blocks in\n%s", blocks(text), text)
	}
	text := draw(partition.Wait{Start: 2e-3, End: 5e-3}, partition.Wait{Start: 6e-3, End: 7e-3})
	if blocks(text) != 3 || !strings.Contains(text, words) || !strings.Contains(text, "s0.F0: 10 ms, from 0 s on; it waits for 4 ms of that") {
		t.Errorf("with waits: %d blocks in\n%s", blocks(text), text)
	}
	if text := draw(partition.Wait{End: 4e-3}); blocks(text) != 1 || strings.Contains(text, words) || !strings.Contains(text, "s0.F0: 6 ms, from 0 s on<") {
		t.Errorf("a wait at the start: %d blocks in\n%s", blocks(text), text)
	}
}

// Extreme steps are drawn within the picture, without texts over each other.
func TestExtremes(t *testing.T) {
	many := smallrun.New(t, "cpu:16")
	long := strings.Repeat("a very long name ", 20)
	for name, step := range map[string]struct {
		length   float64 // of a launch, in seconds
		launches int
	}{"one launch": {1, 1}, "200 microbatches": {1e-3, 400}, "tiny": {3e-10, 7}, "huge": {1e9, 9}} {
		var line picture.Timeline
		for i := range step.launches {
			start := float64(i) * step.length
			line.Launches = append(line.Launches, picture.Launch{Name: fmt.Sprintf("s0.F%d", i), Kinds: []schedule.Kind{schedule.Forward, schedule.Backward}[i%2 : i%2+1], Start: start, End: start + step.length})
		}
		x, err := many.Plan.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range svgtest.Faults(picture.StepSVG(long, many.Plan, x, 1<<40, line)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	x, err := many.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	svgtest.Check(t, picture.SVG(long, many.Plan, x))
}
