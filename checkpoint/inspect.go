package checkpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Stats sums up the elements of a tensor. Min, Max, Mean and Std are of the finite
// elements; they are 0 if there are none. The other fields count elements.
type Stats struct {
	Min, Max, Mean, Std float64
	Zero, NaN, Inf      int64
}

// Stats reads a tensor and sums up its elements.
func (s *Snapshot) Stats(ctx context.Context, name string) (Stats, error) {
	var st Stats
	var n int64
	var sum, squares float64 // of the differences from the first finite element, lest digits cancel
	var first float64
	err := s.pieces(ctx, name, func(d shape.DType, b []byte) error {
		return eachElement(d, b, func(v float64) {
			switch {
			case math.IsNaN(v):
				st.NaN++
				return
			case math.IsInf(v, 0):
				st.Inf++
				return
			case v == 0:
				st.Zero++
			}
			if n == 0 {
				first, st.Min, st.Max = v, v, v
			}
			n++
			st.Min, st.Max = min(st.Min, v), max(st.Max, v)
			sum += v - first
			squares += (v - first) * (v - first)
		})
	})
	if err != nil || n == 0 {
		return st, err
	}
	mean := sum / float64(n)
	st.Mean = first + mean
	st.Std = math.Sqrt(max(0, squares/float64(n)-mean*mean))
	return st, nil
}

// Finite refuses a checkpoint in which a tensor of a role has a number that is NaN or
// infinite: safetensors.ErrFinite.
func (s *Snapshot) Finite(ctx context.Context, role string) error {
	for _, t := range s.Tensors() {
		if t.Role != role || t.Meta.DType != shape.Float32 {
			continue
		}
		before := 0
		err := s.pieces(ctx, t.Name, func(_ shape.DType, b []byte) error {
			numbers := shape.View[float32](b)
			err := safetensors.Later(safetensors.Finite(numbers), before)
			before += len(numbers)
			return err
		})
		if err != nil {
			return fmt.Errorf("checkpoint %d of step %d: tensor %s: %w", s.Manifest.ID, s.Manifest.Step, t.Name, err)
		}
	}
	return nil
}

// pieces hands f the contents of a tensor chunk by chunk. The bytes are valid
// during the call.
func (s *Snapshot) pieces(ctx context.Context, name string, f func(d shape.DType, b []byte) error) error {
	i, ok := s.byName[name]
	if !ok {
		return s.noTensor(name)
	}
	t := &s.Manifest.Tensors[i]
	return s.eachChunk(ctx, t, func(_ Chunk, read func() ([]byte, error)) error {
		b, err := read()
		if err != nil {
			return err
		}
		return f(t.Meta.DType, b)
	})
}

// eachElement decodes little-endian elements.
func eachElement(d shape.DType, b []byte, f func(v float64)) error {
	size := d.Size()
	if size == 0 || len(b)%size != 0 {
		return damaged("the tensor's %d bytes are not a multiple of the size of %v", len(b), d)
	}
	for ; len(b) > 0; b = b[size:] {
		switch d {
		case shape.Float32:
			f(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case shape.Float64:
			f(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		case shape.BFloat16:
			f(float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)))
		case shape.Int32:
			f(float64(int32(binary.LittleEndian.Uint32(b))))
		case shape.Int64:
			f(float64(int64(binary.LittleEndian.Uint64(b))))
		default:
			f(float64(b[0]))
		}
	}
	return nil
}

// Difference is the difference between tensors of the same name in two checkpoints.
type Difference struct {
	Name    string
	A, B    *Tensor // nil if the checkpoint has none of that name
	Count   int64   // elements whose bits differ; 0 unless both have the same type and shape
	Largest float64 // largest difference of two finite elements
}

// Diff lists the tensors whose bits differ between two checkpoints: those of a in
// its order, then those that only b has. Chunks that both share are not read.
func Diff(ctx context.Context, a, b *Snapshot) ([]Difference, error) {
	var ds []Difference
	for i := range a.Manifest.Tensors {
		t := &a.Manifest.Tensors[i]
		other, ok := b.Tensor(t.Name)
		switch {
		case !ok:
			ds = append(ds, Difference{Name: t.Name, A: &t.Tensor})
		case !other.Meta.Equal(t.Meta):
			ds = append(ds, Difference{Name: t.Name, A: &t.Tensor, B: &other})
		default:
			d, err := diffTensor(ctx, a, b, t)
			if err != nil {
				return nil, err
			}
			if d.Count > 0 {
				d.A, d.B = &t.Tensor, &other
				ds = append(ds, d)
			}
		}
	}
	for _, t := range b.Tensors() {
		if _, ok := a.Tensor(t.Name); !ok {
			ds = append(ds, Difference{Name: t.Name, B: &t})
		}
	}
	return ds, nil
}

func diffTensor(ctx context.Context, a, b *Snapshot, t *TensorEntry) (Difference, error) {
	d := Difference{Name: t.Name}
	var off int64
	other := b.Manifest.Tensors[b.byName[t.Name]]
	k := 0 // the chunk; equal ones at the same place are not read in b
	err := a.pieces(ctx, t.Name, func(dt shape.DType, x []byte) error {
		same := k < len(other.Chunks) && other.Chunks[k] == t.Chunks[k] && (k == 0 || other.Chunks[0].Size == t.Chunks[0].Size)
		k++
		if same {
			off += int64(len(x))
			return nil
		}
		y := make([]byte, len(x))
		if err := b.Read(t.Name, off, y); err != nil {
			return err
		}
		off += int64(len(x))
		return d.compare(dt, x, y)
	})
	return d, err
}

// compare counts the elements that differ.
func (d *Difference) compare(dt shape.DType, x, y []byte) error {
	size := dt.Size()
	for i := 0; i+size <= len(x); i += size {
		p, q := x[i:i+size], y[i:i+size]
		if string(p) == string(q) {
			continue
		}
		d.Count++
		var v [2]float64
		for j, b := range [][]byte{p, q} {
			if err := eachElement(dt, b, func(f float64) { v[j] = f }); err != nil {
				return err
			}
		}
		if gap := math.Abs(v[0] - v[1]); gap > d.Largest && !math.IsInf(gap, 0) {
			d.Largest = gap
		}
	}
	return nil
}
