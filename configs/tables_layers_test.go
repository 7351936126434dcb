package configs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestLayersUnderTheirTypeAlone(t *testing.T) {
	const head = "data: {source: digits}\nmodel:\n  layers:\n    - flatten\n"
	long, err := Parse("a.yaml", []byte(head+"    - {type: dense, units: 8}\n    - {type: residual, layers: [{type: layernorm}, {type: dense, units: 8}]}\n    - {type: dense, units: 10}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := Parse("a.yaml", []byte(head+"    - dense: {units: 8}\n    - residual: [layernorm, dense: {units: 8}]\n    - dense: {units: 10}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(short.Model, long.Model) {
		t.Errorf("got %+v, want %+v", short.Model, long.Model)
	}
	_, err = Parse("a.yaml", []byte(head+"    - residual:\n      - layernorm\n      - dense: {unit: 8}\n"), Overlay{})
	if err == nil || !strings.Contains(err.Error(), "a.yaml:7: ") || !strings.Contains(err.Error(), `did you mean "units"`) {
		t.Errorf("got %v, want the line of the wrong key", err)
	}
}

// A mistake in the short form names the type that was meant.
func TestMistakesInLayersUnderTheirType(t *testing.T) {
	for layer, want := range map[string]string{
		"dens: {units: 8}": fmt.Sprintf("a.yaml:5: model.layers[1].type: got \"dens\", expected one of %d words (`trainer configs reference` lists them); did you mean \"dense\"?", len(layerSection.choices())),
		"swosh: [relu]":    `a.yaml:5: model.layers[1].type: got "swosh", expected one of`,
		"dense: 10":        `a.yaml:5: model.layers[1]: got 10 for dense, expected its keys: {type: dense, …}, or dense: {…}`,
		"units: 10":        `a.yaml:5: model.layers[1].type: missing, expected one of`,
		"axes: [1]":        `a.yaml:5: model.layers[1].type: missing, expected one of`,
		"dense:":           `a.yaml:5: model.layers[1].units: missing, expected a whole number of at least 1`,
	} {
		_, err := Parse("a.yaml", []byte("data: {source: digits}\nmodel:\n  layers:\n    - flatten\n    - "+layer+"\n"), Overlay{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v\nexpected %s", layer, err, want)
		}
	}
}
