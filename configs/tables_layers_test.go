package configs

import (
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
