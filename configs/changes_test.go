package configs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
)

// A changed layer is named by its position.
func TestChangesOfLayers(t *testing.T) {
	const head = "data: digits\nmodel:\n  layers:\n    - flatten\n    - residual:\n        - {type: dense, units: 64}\n"
	text := func(units string, more ...string) []byte {
		c, err := configs.Parse("x.yaml", []byte(strings.Replace(head, "units: 64", units, 1)+strings.Join(more, "")+"    - {type: dense, name: last, units: 10}\n"), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for want, now := range map[string][]byte{
		"": text("units: 64"),
		"model.layers[1].layers[0].units was 64, is 32":                                       text("units: 32"),
		"model.layers[2].type was dense, is relu; model.layers[3].type was not set, is dense": text("units: 64", "    - relu\n"),
	} {
		list, err := configs.Changes(text("units: 64"), now)
		if got := configs.SummaryOfChanges(list); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := configs.Changes([]byte("data: {"), text("units: 64")); err == nil {
		t.Error("a text that is no config is compared")
	}
}

// A text from before a key was there means the key's default, and so does a literal
// without it.
func TestReductionOfBefore(t *testing.T) {
	const old = "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {microbatches: 8}\n"
	c, err := configs.Parse("x.yaml", []byte(old), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	for reduction, want := range map[string]string{"": "", configs.ReduceOrder: "", configs.ReduceTree: "train.reduction was order, is tree"} {
		c.Train.Reduction = reduction
		text, err := c.YAML()
		if err = errors.Join(err, c.Check()); err != nil {
			t.Fatal(err)
		}
		list, err := configs.Changes([]byte(old), text)
		if got := configs.SummaryOfChanges(list); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", reduction, got, err, want)
		}
	}
}

// Of many changes, the first few are named and the others counted.
func TestSummaryOfChanges(t *testing.T) {
	list := make([]configs.Change, 9)
	for i := range list {
		list[i] = configs.Change{Key: string(rune('a' + i)), Then: "1", Now: "2"}
	}
	if got := configs.SummaryOfChanges(list); strings.Count(got, " was ") != 6 || !strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("got %q", got)
	}
	if got := configs.SummaryOfChanges(list[:6]); strings.Count(got, " was ") != 6 || strings.Contains(got, "more") {
		t.Errorf("got %q", got)
	}
}

// `loss: NAME` is short for a mapping, so a key that is added to it is the only change.
func TestChangesOfTheLoss(t *testing.T) {
	text := func(loss string) []byte {
		return []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\nloss: " + loss + "\n")
	}
	for _, c := range []struct{ then, now, want string }{
		{"cross_entropy", "{name: cross_entropy, class_weights: balanced}", "loss.class_weights was not set, is balanced"},
		{"{name: cross_entropy, class_weights: balanced}", "cross_entropy", "loss.class_weights was balanced, is not set"},
		{"cross_entropy", "focal", "loss.name was cross_entropy, is focal; loss.gamma was not set, is 2"},
	} {
		list, err := configs.Changes(text(c.then), text(c.now))
		if got := configs.SummaryOfChanges(list); err != nil || got != c.want {
			t.Errorf("from %s to %s: %q, %v, want %q", c.then, c.now, got, err, c.want)
		}
	}
}

// A mapping in place of a value is one change of the key, both ways.
func TestChangesOfAValueToAMapping(t *testing.T) {
	text := func(split, loss string) []byte {
		return []byte("data: {source: csv, path: x.csv, split: " + split + "}\nmodel: {preset: mlp, hidden: [8]}\nloss: {name: cross_entropy, class_weights: " + loss + "}\n")
	}
	number, parts := text("0.8", "balanced"), text("{val: 0.1, test: 0.2}", "{a: 2, b: 1}")
	for _, c := range []struct {
		then, now []byte
		want      string
	}{
		{number, parts, "data.split was 0.8, is {val: 0.1, test: 0.2, stratify: true}; loss.class_weights was balanced, is {a: 2, b: 1}"},
		{parts, number, "data.split was {val: 0.1, test: 0.2, stratify: true}, is 0.8; loss.class_weights was {a: 2, b: 1}, is balanced"},
		{parts, text("{val: 0.1, test: 0.3}", "{a: 2, b: 1}"), "data.split.test was 0.2, is 0.3"},
		{text("0.8", "{St: 2, St Ives: 1, St. Ives: 3}"), text("0.8", "{St: 9, St Ives: 1, St. Ives: 4}"), "loss.class_weights.St was 2, is 9; loss.class_weights.St. Ives was 3, is 4"},
	} {
		list, err := configs.Changes(c.then, c.now)
		if got := configs.SummaryOfChanges(list); err != nil || got != c.want {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
}
