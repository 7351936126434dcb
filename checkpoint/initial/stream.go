package initial

import (
	"context"
	"errors"
	"io"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Stream is the variables in a compressed file of weights, which can only be read
// from front to back. It is an executor.Sequence.
type Stream struct {
	file *safetensors.Stream
	vars map[string]*graph.Value       // parameters and statistics that are in the file, by their names there
	has  map[string]safetensors.Tensor // their tensors, by the names of the model
	at   *graph.Value                  // the variable that Next moved to
}

func newStream(f *safetensors.Stream, source Source, inFile map[string]string, vars []*graph.Value) *Stream {
	s := &Stream{file: f, vars: map[string]*graph.Value{}, has: map[string]safetensors.Tensor{}}
	for _, v := range vars {
		if name, ok := inFile[v.Name]; ok && weight(v) && !source.Skips(v.Name) {
			s.vars[name] = v
		}
	}
	for _, t := range f.Tensors() {
		if v := s.of(t); v != nil {
			s.has[v.Name] = t
		}
	}
	return s
}

// of is the variable that takes a tensor of the file as its contents; nil if the model has
// none for it.
func (s *Stream) of(t safetensors.Tensor) *graph.Value { return s.vars[t.Name] }

// Names lists the variables in the file, in its order.
func (s *Stream) Names() (names []string) {
	for _, t := range s.file.Tensors() {
		if v := s.of(t); v != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// Bytes is the size in bytes of the file's tensors, unpacked.
func (s *Stream) Bytes() (n int64) {
	for _, t := range s.file.Tensors() {
		n += t.Bytes()
	}
	return n
}

// Next moves to the next variable. io.EOF says that there is none, and that the
// file is whole. ctx ends passing over contents.
func (s *Stream) Next(ctx context.Context) (name string, bytes int64, err error) {
	for {
		t, err := s.file.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil: // the file may well be good
			return "", 0, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return "", 0, err
		case err != nil:
			return "", 0, readError(err)
		}
		if v := s.of(t); v != nil {
			s.at = v
			return v.Name, v.Meta.Bytes(), nil
		}
	}
}

// Read fills dst with the contents of the variable that Next moved to. One that is stored in bfloat16
// or int8 is in memory as float32 meanwhile.
func (s *Stream) Read(dst []byte) error {
	if s.at.Meta.DType.Stored() {
		all := make([]float32, s.at.Meta.Elems())
		if err := s.file.ReadWeights(all); err != nil {
			return readError(err)
		}
		return readError(narrowed(s.at, s.at.Name, dst, func(piece []float32, at int) error {
			copy(piece, all[at:])
			return nil
		}))
	}
	return readError(s.file.ReadWeights(shape.View[float32](dst)))
}

// Rewind goes back to before the first variable.
func (s *Stream) Rewind() error { return readError(s.file.Rewind()) }
