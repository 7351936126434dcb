package onnx_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/onnx"
)

// A model that is too large for the format is refused before anything is written.
func TestModelsThatAreTooLarge(t *testing.T) {
	b := onnx.NewBuilder("large")
	b.Weight("w", onnx.Float32, []int{1 << 29}, func([]byte) error { panic("it is read") })
	var out bytes.Buffer
	err := onnx.Write(&out, &onnx.Model{Graph: b.Graph()})
	if !errors.Is(err, onnx.ErrLarge) || out.Len() > 0 || !strings.HasSuffix(err.Error(), "; write the weights alone, as safetensors") {
		t.Errorf("got %v after %d bytes", err, out.Len())
	}
}

// full is a disk with room for some bytes.
type full struct{ room int }

var errFull = errors.New("no room")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// What goes wrong in reading a weight, or in writing at any place, ends the file with an error.
func TestWritingFails(t *testing.T) {
	errRead := errors.New("no weight")
	model := func(read error) *onnx.Model {
		b := onnx.NewBuilder("m")
		w := b.Weight("w", onnx.Float32, []int{4000}, func([]byte) error { return read })
		b.Weight("none", onnx.Float32, []int{0}, func([]byte) error { panic("it is read") })
		b.Output("y", b.Node("Add", nil, w, b.Float(1)), onnx.Float32, onnx.Dim{Size: 4000})
		return &onnx.Model{Producer: "test", Metadata: []onnx.Property{{Key: "a", Value: "b"}}, Graph: b.Graph()}
	}
	var whole bytes.Buffer
	if err := onnx.Write(&whole, model(nil)); err != nil {
		t.Fatal(err)
	}
	if err := onnx.Write(&bytes.Buffer{}, model(errRead)); !errors.Is(err, errRead) {
		t.Errorf("a weight that cannot be read: %v", err)
	}
	for room := 0; room < whole.Len(); room += 97 {
		if err := onnx.Write(&full{room}, model(nil)); !errors.Is(err, errFull) {
			t.Fatalf("room for %d of %d bytes: %v", room, whole.Len(), err)
		}
	}
}

// Names are unique, also where a value has the name that would come next.
func TestFreeNames(t *testing.T) {
	b := onnx.NewBuilder("names")
	for _, x := range [][2]string{{"a", "a"}, {"a_2", "a_2"}, {"a", "a_3"}, {"a", "a_4"}, {"a_2", "a_2_2"}, {"", "_2"}, {"", "_3"}} {
		if got := b.Free(x[0]); got != x[1] {
			t.Errorf("free name for %q: %q, expected %q", x[0], got, x[1])
		}
	}
}
