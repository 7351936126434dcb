package custom_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
)

// squares are x and x² at evenly spaced x.
func squares() *custom.Set {
	return &custom.Set{
		Name: "squares", Version: 1, Len: 100, Input: shape.F32(2), Target: shape.F32(1),
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			x := float32(s.Index) / 100
			in := input.Float32s()
			in[0], in[1] = x, -x
			target.Float32s()[0] = x * x
			return nil
		},
	}
}

func open(t *testing.T, s *custom.Set, spec datasets.Spec) *datasets.Dataset {
	t.Helper()
	f, err := s.Filled()
	if err != nil {
		t.Fatal(err)
	}
	spec.Source, spec.Filled = "given", f
	ds, err := datasets.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// A set is split, shuffled and read as any data.
func TestSetIsRead(t *testing.T) {
	ds := open(t, squares(), datasets.Spec{Seed: 3})
	if ds.Train.Len() != 80 || ds.Val.Len() != 20 {
		t.Fatalf("%d and %d samples", ds.Train.Len(), ds.Val.Len())
	}
	seen := map[float32]bool{}
	for _, part := range []*datasets.Part{ds.Train, ds.Val} {
		dst := part.Alloc(part.Len())
		if n, err := part.Read(datasets.Cursor{}, part.Len(), dst); n != part.Len() || err != nil {
			t.Fatal(n, err)
		}
		in, out := shape.View[float32](dst[0]), shape.View[float32](dst[1])
		for i, y := range out {
			if x := in[2*i]; y != x*x || in[2*i+1] != -x {
				t.Fatalf("row %d is %v, %v", i, in[2*i:2*i+2], y)
			}
			seen[in[2*i]] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d different samples", len(seen))
	}
}

// Validation samples of the set's own are used unless a split is asked for.
func TestOwnValidation(t *testing.T) {
	s := squares()
	val := squares()
	val.Name, val.Len = "other squares", 7
	s.Validation = val
	if ds := open(t, s, datasets.Spec{}); ds.Train.Len() != 100 || ds.Val.Len() != 7 {
		t.Errorf("%d and %d samples", ds.Train.Len(), ds.Val.Len())
	}
	if ds := open(t, s, datasets.Spec{Split: 0.5}); ds.Train.Len() != 50 || ds.Val.Len() != 50 {
		t.Errorf("split in half: %d and %d samples", ds.Train.Len(), ds.Val.Len())
	}
}

// Training samples may vary by epoch, with a seed that depends on run, index and epoch
// alone; samples to evaluate do not vary.
func TestSampleNamesEpochAndSeed(t *testing.T) {
	s := squares()
	s.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
		input.Float32s()[0], input.Float32s()[1] = float32(s.Epoch), float32(s.Seed%1e6)
		target.Float32s()[0] = float32(s.Index)
		return nil
	}
	ds := open(t, s, datasets.Spec{Split: 0.5, KeepOrder: true})
	read := func(p *datasets.Part, epoch int) (e, seed float32) {
		dst := p.Alloc(1)
		if _, err := p.Read(datasets.Cursor{Epoch: epoch, Index: 4}, 1, dst); err != nil {
			t.Fatal(err)
		}
		in := shape.View[float32](dst[0])
		return in[0], in[1]
	}
	e0, seed0 := read(ds.Train, 0)
	e5, seed5 := read(ds.Train, 5)
	if again, same := read(ds.Train, 5); e0 != 0 || e5 != 5 || seed0 == seed5 || again != e5 || same != seed5 {
		t.Errorf("epochs %v, %v; seeds %v, %v", e0, e5, seed0, seed5)
	}
	for _, p := range []*datasets.Part{ds.Val, ds.Train.AsInputs()} {
		a, x := read(p, 0)
		b, y := read(p, 3)
		if a != -1 || b != -1 || x != y {
			t.Errorf("evaluated: epochs %v, %v; seeds %v, %v", a, b, x, y)
		}
	}
	if a, _ := read(ds.Train.FirstBatch(8), 3); a != 0 {
		t.Errorf("the first batch alone varies: epoch %v", a)
	}
}

// Reading allocates nothing per batch.
func TestReadingAllocatesNothing(t *testing.T) {
	ds := open(t, squares(), datasets.Spec{})
	dst := ds.Train.Alloc(16)
	allocs := testing.AllocsPerRun(20, func() {
		if _, err := ds.Train.Read(datasets.Cursor{Epoch: 1}, 16, dst); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("a batch allocates %v times", allocs)
	}
}

// An error, a panic and a wrong number name the sample.
func TestErrorsNameTheSample(t *testing.T) {
	classes := &custom.Set{Name: "classes", Version: 1, Len: 10, Input: shape.I32(3), Tokens: 5, Target: shape.I32(), Classes: 2}
	write := func(token, class int32) func(custom.Sample, *tensor.Dense, *tensor.Dense) error {
		return func(s custom.Sample, input, target *tensor.Dense) error {
			copy(input.Int32s(), []int32{0, 1, 2})
			target.Int32s()[0] = 1
			if s.Index == 6 {
				input.Int32s()[1], target.Int32s()[0] = token, class
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		fill func(custom.Sample, *tensor.Dense, *tensor.Dense) error
		want string
	}{
		"an error": {func(s custom.Sample, in, out *tensor.Dense) error {
			if s.Index == 6 {
				return errors.New("the file is gone")
			}
			return write(0, 0)(s, in, out)
		}, "sample 6: the file is gone"},
		"a panic": {func(s custom.Sample, in, out *tensor.Dense) error {
			if s.Index == 6 {
				var none []int
				_ = none[s.Index]
			}
			return write(0, 0)(s, in, out)
		}, "sample 6: panic: runtime error: index out of range [6] with length 0 (at "},
		"a class": {write(0, 2), "sample 6: the class is 2, and Classes is 2: it must be from 0 to 1"},
		"a token": {write(-1, 0), "sample 6: the token is -1, and Tokens is 5: it must be from 0 to 4"},
		"replacement": {func(s custom.Sample, in, out *tensor.Dense) error {
			*in = *tensor.New(tensor.Of(tensor.Int32), tensor.WithShape(3))
			return nil
		}, "sample 0: its function Fill gave a tensor another shape or memory"},
	} {
		set := *classes
		set.Fill = c.fill
		f, err := set.Filled()
		if err != nil {
			t.Fatal(err)
		}
		_, err = datasets.Open(t.Context(), datasets.Spec{Source: "given", Filled: f})
		if !errors.Is(err, datasets.ErrFill) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Sets from which nothing can be read are refused with what is missing.
func TestSetsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*custom.Set){
		"it needs at least one":           func(s *custom.Set) { s.Len = 0 },
		"has no function Fill":            func(s *custom.Set) { s.Fill = nil },
		"a Version of at least 1":         func(s *custom.Set) { s.Version = 0 },
		"an input is f64":                 func(s *custom.Set) { s.Input = shape.Meta{DType: shape.Float64, Shape: shape.Of(2)} },
		"needs Tokens":                    func(s *custom.Set) { s.Input = shape.I32(2) },
		"the number of classes":           func(s *custom.Set) { s.Target = shape.I32() },
		"give Target":                     func(s *custom.Set) { s.Target = shape.Meta{} },
		"make them alike":                 func(s *custom.Set) { s.Validation = squares(); s.Validation.Input = shape.F32(3) },
		"have a Validation of their own":  func(s *custom.Set) { s.Validation = squares(); s.Validation.Validation = squares() },
		"a target is f32[0]: give f32 or": func(s *custom.Set) { s.Target = shape.F32(0) },
	} {
		s := squares()
		change(s)
		f, err := s.Filled()
		if err == nil {
			_, err = datasets.Open(t.Context(), datasets.Spec{Source: "given", Filled: f})
		}
		if !errors.Is(err, datasets.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The fingerprint follows from name, version, contents and some samples.
func TestFingerprint(t *testing.T) {
	print := func(change func(*custom.Set)) string {
		s := squares()
		change(s)
		return open(t, s, datasets.Spec{}).Info.Fingerprint
	}
	seen := map[string]string{}
	for name, change := range map[string]func(*custom.Set){
		"none":     func(*custom.Set) {},
		"version":  func(s *custom.Set) { s.Version = 2 },
		"name":     func(s *custom.Set) { s.Name = "cubes" },
		"contents": func(s *custom.Set) { s.Contents = "abc" },
		"length":   func(s *custom.Set) { s.Len = 99 },
		"samples": func(s *custom.Set) {
			s.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
				input.Float32s()[0], input.Float32s()[1], target.Float32s()[0] = 1, 2, 3
				return nil
			}
		},
	} {
		p := print(change)
		if other, same := seen[p]; same {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		if seen[p] = name; p != print(change) {
			t.Errorf("%s: the fingerprint differs from one opening to the next", name)
		}
	}
}

// Check tells the usual mistakes.
func TestCheck(t *testing.T) {
	if err := custom.Check(squares()); err != nil {
		t.Error(err)
	}
	calls := 0
	var mu sync.Mutex
	var kept []float32
	var slices [][]float32
	var tensors []*tensor.Dense
	for want, fill := range map[string]func(custom.Sample, *tensor.Dense, *tensor.Dense) error{
		"differs from one call to the next": func(_ custom.Sample, in, out *tensor.Dense) error {
			copy(in.Float32s(), []float32{1, 2}) // and no target
			return nil
		},
		"sample 0: the input differs": func(s custom.Sample, in, out *tensor.Dense) error {
			if s.Index == 0 {
				calls++
			}
			in.Float32s()[0], in.Float32s()[1], out.Float32s()[0] = float32(calls), 0, 0
			return nil
		},
		"Fill keeps a tensor": func(s custom.Sample, in, out *tensor.Dense) error {
			mu.Lock()
			defer mu.Unlock()
			if kept != nil {
				kept[0] = 7
			}
			kept = in.Float32s()
			in.Float32s()[0], in.Float32s()[1], out.Float32s()[0] = 7, 0, 0
			return nil
		},
		"or a slice of one": func(s custom.Sample, in, out *tensor.Dense) error {
			mu.Lock()
			defer mu.Unlock()
			slices = append(slices, in.Float32s())
			in.Float32s()[0], in.Float32s()[1], out.Float32s()[0] = 7, 0, 0
			return nil
		},
		"beyond its call": func(s custom.Sample, in, out *tensor.Dense) error {
			mu.Lock()
			defer mu.Unlock()
			tensors = append(tensors, out)
			in.Float32s()[0], in.Float32s()[1], out.Float32s()[0] = 7, 0, 0
			return nil
		},
	} {
		s := squares()
		s.Fill = fill
		if err := custom.Check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A loader reads a set ahead, and its error comes out with the sample.
func TestLoader(t *testing.T) {
	s := squares()
	fill := s.Fill
	s.Fill = func(s custom.Sample, in, out *tensor.Dense) error {
		if s.Epoch == 1 {
			panic(fmt.Sprint("no epoch ", s.Epoch))
		}
		return fill(s, in, out)
	}
	ds := open(t, s, datasets.Spec{})
	l, err := datasets.NewLoader(ds.Train, [][][]byte{ds.Train.Alloc(40), ds.Train.Alloc(40)}, datasets.LoaderOptions{Batch: 40})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := 0; ; i++ {
		b, err := l.Next(ctx)
		if err != nil {
			if i != 2 || !strings.Contains(err.Error(), "panic: no epoch 1") {
				t.Errorf("after %d batches: %v", i, err)
			}
			return
		}
		l.Return(b.Slot)
	}
}

// words are sequences of tokens of 1 to 6 positions, each of its own length, with a class.
func words() *custom.Set {
	return &custom.Set{
		Name: "words", Version: 1, Len: 30, Input: shape.I32(6), Target: shape.I32(), Tokens: 7, Classes: 6,
		Length: func(i int) int { return 1 + i%6 }, Buckets: []int{2, 6},
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			for k := range input.Int32s() {
				input.Int32s()[k] = int32(len(input.Int32s()))
			}
			target.Int32s()[0] = int32(len(input.Int32s())) - 1
			return nil
		},
	}
}

// Sequences are read in batches of one bucket, each sample once; steady reading allocates
// nothing.
func TestSequencesAreRead(t *testing.T) {
	if err := custom.Check(words()); err != nil {
		t.Fatal(err)
	}
	const n = 4
	part := open(t, words(), datasets.Spec{Seed: 3, Split: 1}).Train.InBatches(n)
	if part.Samples() != 30 || part.Len() != 12+20 {
		t.Fatalf("%d samples, %d with empty ones", part.Samples(), part.Len())
	}
	dst, of := part.Alloc(n), map[int32]int{}
	for c := (datasets.Cursor{}); c.Epoch == 0; c = part.Next(c, n) {
		if _, err := part.Read(c, n, dst); err != nil {
			t.Fatal(err)
		}
		positions := part.Buckets()[part.Bucket(c)]
		ids, lengths, classes := shape.View[int32](dst[0]), shape.View[int32](dst[1]), shape.View[int32](dst[2])
		for j := range n {
			row := ids[j*positions : (j+1)*positions]
			length := lengths[j]
			if int(length) > positions || classes[j] != length-1 { // -1 of an empty one: datasets.Padding
				t.Errorf("a sample of length %d in %d positions has class %d", length, positions, classes[j])
			}
			for k, id := range row {
				if want := map[bool]int32{true: length}[k < int(length)]; id != want {
					t.Errorf("position %d of %d is %d, want %d", k, length, id, want)
				}
			}
			of[length]++
		}
	}
	if of[0] != 2 || of[1] != 5 || of[6] != 5 {
		t.Errorf("samples by length: %v", of)
	}
	if allocs := testing.AllocsPerRun(20, func() {
		if _, err := part.Read(datasets.Cursor{Index: n}, n, dst); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("a batch allocates %v times", allocs)
	}
}

// One batch of sequences stays the same in all epochs.
func TestFirstBatchOfSequences(t *testing.T) {
	const n = 4
	epochs := words()
	epochs.Tokens, epochs.Fill = 4, func(s custom.Sample, input, target *tensor.Dense) error {
		for k := range input.Int32s() {
			input.Int32s()[k] = int32(s.Epoch + 1)
		}
		return nil
	}
	first := open(t, epochs, datasets.Spec{Split: 1}).Train.FirstBatch(n)
	dst := first.Alloc(n)
	if _, err := first.Read(datasets.Cursor{Epoch: 2}, n, dst); err != nil || shape.View[int32](dst[0])[0] != 1 {
		t.Errorf("the first batch has samples of epoch %d, %v", shape.View[int32](dst[0])[0]-1, err)
	}
}

// Sequences are no samples for a model of samples of one shape, and the other way round.
func TestSequencesAreNoOtherSamples(t *testing.T) {
	whole := words()
	whole.Length, whole.Buckets = nil, nil
	like := open(t, whole, datasets.Spec{}).Info
	for _, set := range []*custom.Set{whole, words()} {
		f, err := set.Filled()
		if err != nil {
			t.Fatal(err)
		}
		other := map[bool]*datasets.Info{true: &like, false: &open(t, words(), datasets.Spec{}).Info}[set != whole]
		_, trained := datasets.Open(t.Context(), datasets.Spec{Source: "given", Filled: f, Like: other})
		f.Target = shape.Meta{}
		_, inputs := datasets.OpenInputs(t.Context(), datasets.Spec{Source: "given", Filled: f}, other, "x")
		for _, err := range []error{trained, inputs} {
			if !errors.Is(err, datasets.ErrFormat) || !strings.Contains(err.Error(), "length") {
				t.Errorf("samples of the other kind: %v", err)
			}
		}
	}
	wrong := words()
	wrong.Tokens = 6
	f, err := wrong.Filled()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := datasets.Open(t.Context(), datasets.Spec{Source: "given", Filled: f}); err == nil || !strings.Contains(err.Error(), "the token is 6, and Tokens is 6") {
		t.Errorf("a token too many: %v", err)
	}
}
