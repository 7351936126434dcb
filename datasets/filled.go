package datasets

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Filled is a data set whose samples a function writes, one at a time, when a batch
// is read. Package custom makes one of a program's own data set.
type Filled struct {
	Name     string // of the data set, with its version
	Identity string // all that decides the samples; part of the fingerprint
	Input    shape.Meta
	Target   shape.Meta // without an element type: there are no targets, and nothing can be trained
	Classes  int        // of an i32 target
	Labels   []string   // by class; nil: they have no names
	Tokens   int        // of an i32 input
	Len      int        // samples
	// Fill writes all elements of a sample; target is nil where nobody reads it. It is
	// called from several goroutines at once, allocates nothing, and keeps no memory.
	Fill func(s Sample, input, target []byte) error
	// Length is the positions of a sample, from 1 to the first axis of Input; nil: all have
	// the shape Input. A target is one for each position if PerPosition says so.
	Length  func(i int) int
	Buckets []int   // with Length: to which samples are padded; the last is the first axis of Input
	Val     *Filled // own samples to validate with; nil: a part of the others
}

// Sample names a sample that a function is to write.
type Sample struct {
	Index int // from 0
	Epoch int // of training, from 0; -1: the sample is to be evaluated or predicted from
	// Seed is the same for the same run, index and epoch: random changes to a sample
	// follow it, so that a resumed run trains on the same numbers.
	Seed uint64
}

// ErrFill is about a sample that a program's function failed to write.
var ErrFill = fmt.Errorf("%w of the program's own", ErrFormat)

// check refuses a data set that nothing can be read from.
func (f *Filled) check() error {
	switch t := f.Target; {
	case f.Fill == nil:
		return fmt.Errorf("%w: %s has no function Fill", ErrSpec, f.Name)
	case f.Len < 1:
		return fmt.Errorf("%w: %s has %d samples: it needs at least one", ErrSpec, f.Name, f.Len)
	case !readable(f.Input):
		return fmt.Errorf("%w: %s: an input is %v: give f32 or i32 and a shape", ErrSpec, f.Name, f.Input)
	case f.Input.DType == shape.Int32 && f.Tokens < 1:
		return fmt.Errorf("%w: %s: an input of ids needs Tokens, the number of distinct ids", ErrSpec, f.Name)
	case t.DType == shape.Invalid:
	case !readable(t):
		return fmt.Errorf("%w: %s: a target is %v: give f32 or i32 and a shape", ErrSpec, f.Name, t)
	case t.DType == shape.Int32 && f.Classes < 2:
		return fmt.Errorf("%w: %s: an i32 target is a class, and Classes is %d: give the number of classes, at least 2", ErrSpec, f.Name, f.Classes)
	}
	return f.checkLengths()
}

// checkLengths refuses samples of different lengths that no model takes.
func (f *Filled) checkLengths() error {
	if f.Length == nil && f.Buckets == nil {
		return nil
	}
	in, t := f.Input, f.target().Meta
	switch {
	case f.Length == nil:
		return fmt.Errorf("%w: %s has buckets and no function Length: give both, or neither", ErrSpec, f.Name)
	case in.DType == shape.Int32 && in.Shape.Rank() != 1, in.DType == shape.Float32 && in.Shape.Rank() < 2:
		return fmt.Errorf("%w: %s: samples of different lengths are %v: give tokens, i32[positions], or numbers, f32[positions, features]", ErrSpec, f.Name, in)
	case t.DType != shape.Invalid && PerPosition(t) && t.Shape[0] != in.Shape[0]:
		return fmt.Errorf("%w: %s: a sample has up to %d positions, and its target, %v, another number: make the first axes alike", ErrSpec, f.Name, in.Shape[0], t)
	}
	if err := checkBuckets(f.Buckets); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if last := f.Buckets[len(f.Buckets)-1]; last != in.Shape[0] {
		return fmt.Errorf("%w: %s: the largest bucket is %d, and the longest sample has %d positions (the first axis of Input): make them equal", ErrSpec, f.Name, last, in.Shape[0])
	}
	return nil
}

func readable(m shape.Meta) bool {
	return (m.DType == shape.Float32 || m.DType == shape.Int32) && m.Shape.Validate() == nil && m.Elems() > 0
}

// target is the field of the target. A number has an axis of size 1.
func (f *Filled) target() Field {
	m := f.Target
	if m.DType == shape.Float32 && m.Shape.Rank() == 0 {
		m.Shape = shape.Of(1)
	}
	return Field{"target", m}
}

// write has the function write a sample. It refuses ids that the model has no room for, and
// with unit targets outside 0 to 1.
func (f *Filled) write(x Sample, input, target []byte, unit bool) error {
	if err := f.Fill(x, input, target); err != nil {
		return err
	}
	if f.Input.DType == shape.Int32 {
		if err := within("token", "Tokens", shape.View[int32](input), f.Tokens); err != nil {
			return err
		}
	}
	if f.Target.DType == shape.Int32 {
		return within("class", "Classes", shape.View[int32](target), f.Classes)
	}
	if unit {
		for _, v := range shape.View[float32](target) {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("%s", notUnit(v))
			}
		}
	}
	return nil
}

// within refuses ids that are not from 0 to n-1.
func within(what, count string, ids []int32, n int) error {
	for _, id := range ids {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("the %s is %d, and %s is %d: it must be from 0 to %d", what, id, count, n, n-1)
		}
	}
	return nil
}

// failed is the error of a function of the program's about a sample.
func (f *Filled) failed(x Sample, err error) error {
	return fmt.Errorf("%w: %s, sample %d: %w", ErrFill, f.Name, x.Index, err)
}

// guard makes a panic in a function of the program's about sample x an error. Where f is
// nil, no such function runs.
func (f *Filled) guard(x *Sample, err *error) {
	if f == nil {
		return
	}
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s, sample %d: panic: %s", ErrFill, f.Name, x.Index, panics.Text(r))
	}
}

// table is the samples as a table, whose columns have no data.
func (f *Filled) table(target bool, unit bool) (*table, error) {
	if f.Length != nil {
		return f.sequenceTable(target)
	}
	t := &table{rows: f.Len, filled: f, unit: unit}
	fields := []Field{{"input", f.Input}}
	if target {
		fields = append(fields, f.target())
	}
	for _, field := range fields {
		t.columns = append(t.columns, newColumn(field, nil))
	}
	return t, nil
}

// openFilled is Open for samples that a function writes.
func openFilled(ctx context.Context, s Spec) (*Dataset, error) {
	f := s.Filled
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.Target.DType == shape.Invalid {
		return nil, fmt.Errorf("%w: %s has no targets to train on or to evaluate with: give Target", ErrSpec, f.Name)
	}
	tables, err := f.tables(s)
	if err != nil {
		return nil, err
	}
	print, err := filledPrint(ctx, s, tables)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: f.Name, Info: Info{
		Inputs: []Field{{"input", f.Input}}, Target: f.target(), Classes: f.Classes, ClassNames: f.Labels, Tokens: f.Tokens, Fingerprint: print,
	}}
	if f.Length != nil {
		ds.Info.Inputs, ds.Info.Buckets = append(ds.Info.Inputs, lengthField), f.Buckets
	}
	if len(tables) > 1 {
		ds.Train, ds.Val = &Part{table: tables[0], count: f.Len}, &Part{table: tables[1], count: f.Val.Len}
		shuffle(ds.Train, s)
	} else if err := ds.split(tables[0], s, s.trainFraction(print, 0.8), nil); err != nil {
		return nil, err
	}
	ds.Train.varies = true
	ds.Train.seed = s.Seed
	return ds, nil
}

// tables are the samples, and those to validate with if they are others.
func (f *Filled) tables(s Spec) ([]*table, error) {
	first, err := f.table(true, s.UnitTarget)
	if err != nil || s.Split > 0 || s.Division != nil || f.Val == nil {
		return []*table{first}, err
	}
	if err := f.Val.check(); err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	second, err := f.Val.table(true, s.UnitTarget)
	if err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	if !slices.Equal(f.Buckets, f.Val.Buckets) {
		return nil, fmt.Errorf("%w: %s: the buckets of validation samples are %v, those of training samples %v: make them alike", ErrSpec, f.Name, f.Val.Buckets, f.Buckets)
	}
	for i, c := range second.columns {
		if want := first.columns[i].field.Meta; !c.field.Meta.Equal(want) {
			return nil, fmt.Errorf("%w: %s: the %s of a validation sample is %v, that of a training sample %v: make them alike", ErrSpec, f.Name, c.field.Name, c.field.Meta, want)
		}
	}
	return []*table{first, second}, nil
}

// probes is the number of samples of a table that are part of the fingerprint: all
// may be too many to compute.
const probes = 16

// filledPrint is the fingerprint of samples that a function writes: of their
// identity, and of some of them.
func filledPrint(ctx context.Context, s Spec, tables []*table) (string, error) {
	options := []any{s.Filled.Identity}
	for _, t := range tables {
		p := &Part{table: t, count: t.rows}
		dst := p.Alloc(1)
		for i := range min(probes, t.rows) {
			if err := context.Cause(ctx); err != nil {
				return "", err
			}
			at := i * t.rows / min(probes, t.rows)
			if _, err := p.Read(Cursor{Index: at}, 1, dst); err != nil {
				return "", err
			}
			options = append(options, fmt.Sprintf("%x", dst))
		}
	}
	return fingerprint(ctx, s, options, tables...)
}

// filledInputs is the inputs of samples that a function writes.
func filledInputs(_ context.Context, s Spec, _ *Info, _ string) (*table, error) {
	if err := s.Filled.check(); err != nil {
		return nil, err
	}
	return s.Filled.table(false, false)
}

// filledRows are samples of different lengths that a function writes.
type filledRows struct {
	f       *Filled
	lengths []int32
}

// sequenceTable is the samples as a table, with or without targets.
func (f *Filled) sequenceTable(targets bool) (t *table, err error) {
	var x Sample
	defer f.guard(&x, &err)
	rows := &filledRows{f, make([]int32, f.Len)}
	for x.Index = range rows.lengths {
		n := f.Length(x.Index)
		if n < 1 || n > f.Input.Shape[0] {
			return nil, fmt.Errorf("%w: %s, sample %d: its length is %d: it must be from 1 to %d, the first axis of Input", ErrFill, f.Name, x.Index, n, f.Input.Shape[0])
		}
		rows.lengths[x.Index] = int32(n)
	}
	s := &sequences{of: rows, buckets: f.Buckets, input: f.Input}
	if targets {
		s.target = f.target().Meta
	}
	t = sequenceTable(s)
	t.filled = f
	return t, nil
}

func (r *filledRows) rows() int { return len(r.lengths) }

func (r *filledRows) bytes() int64 { return int64(4 * len(r.lengths)) }

func (r *filledRows) length(row int) int { return int(r.lengths[row]) }

func (r *filledRows) write(s Sample, input, target []byte) error {
	return r.f.write(s, input, target, false) // no loss of sequences needs targets from 0 to 1
}

func (r *filledRows) hash(_ context.Context, buckets []int, w io.Writer) error {
	fmt.Fprintf(w, "samples in %v\n", buckets)
	_, err := w.Write(shape.Bytes(r.lengths))
	return err
}
