package picture_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition/picture"
)

// The picture is well-formed, and names what the plan has.
func TestSVG(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := picture.SVG("digits <& co>", r.Plan, x)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	want := []string{"digits &lt;&amp; co&gt; on cpu:0, cpu:1", "stage 0 · cpu:0", "stage 1 · cpu:1", "s1.FBU"}
	for _, s := range r.Plan.Stages {
		want = append(want, s.Blocks...)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the picture lacks %q", w)
		}
	}
	if n := strings.Count(text, `class="cut"`); n != 1 {
		t.Errorf("%d arrows cross the one cut", n)
	}
}
