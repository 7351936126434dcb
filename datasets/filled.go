package datasets

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
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
	// Fill writes a sample into row `row` of dst, which has a slice for each field. It
	// is called from several goroutines at once, allocates nothing, and keeps no memory.
	Fill func(s Sample, row int, dst [][]byte) error
	Val  *Filled // own samples to validate with; nil: a part of the others
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
		return nil
	case !readable(t):
		return fmt.Errorf("%w: %s: a target is %v: give f32 or i32 and a shape", ErrSpec, f.Name, t)
	case t.DType == shape.Int32 && f.Classes < 2:
		return fmt.Errorf("%w: %s: an i32 target is a class, and Classes is %d: give the number of classes, at least 2", ErrSpec, f.Name, f.Classes)
	}
	return nil
}

func readable(m shape.Meta) bool {
	return (m.DType == shape.Float32 || m.DType == shape.Int32) && m.Shape.Validate() == nil && m.Elems() > 0
}

// table is the samples as a table, whose columns have no data.
func (f *Filled) table(target bool, unit bool) *table {
	t := &table{rows: f.Len, filled: f, unit: unit}
	fields := []Field{{"input", f.Input}}
	if target {
		fields = append(fields, f.target())
	}
	for _, field := range fields {
		t.columns = append(t.columns, newColumn(field, nil))
	}
	return t
}

// target is the field of the target. A number has an axis of size 1.
func (f *Filled) target() Field {
	m := f.Target
	if m.DType == shape.Float32 && m.Shape.Rank() == 0 {
		m.Shape = shape.Of(1)
	}
	return Field{"target", m}
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
	tables := []*table{f.table(true, s.UnitTarget)}
	own := s.Split == 0 && f.Val != nil
	if own {
		if err := f.Val.check(); err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
		tables = append(tables, f.Val.table(true, s.UnitTarget))
		for i, field := range tables[1].columns {
			if first := tables[0].columns[i].field.Meta; !field.field.Meta.Equal(first) {
				return nil, fmt.Errorf("%w: %s: the %s of a validation sample is %v, that of a training sample %v: make them alike", ErrSpec, f.Name, field.field.Name, field.field.Meta, first)
			}
		}
	}
	print, err := filledPrint(ctx, s, tables)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: f.Name, Info: Info{
		Inputs: []Field{{"input", f.Input}}, Target: f.target(), Classes: f.Classes, ClassNames: f.Labels, Tokens: f.Tokens, Fingerprint: print,
	}}
	if own {
		ds.Train, ds.Val = &Part{table: tables[0], count: f.Len}, &Part{table: tables[1], count: f.Val.Len}
		shuffle(ds.Train, s)
	} else if ds.Train, ds.Val, err = splitRandomly(tables[0], s, s.trainFraction(print, 0.8)); err != nil {
		return nil, err
	}
	ds.Train.varies = true
	ds.Train.seed = s.Seed
	return ds, nil
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

// fillWith has the function of the part's samples write the n samples from c on to
// dst. A panic in it becomes an error.
func (p *Part) fillWith(c Cursor, n int, dst [][]byte) (err error) {
	f, s := p.table.filled, Sample{Epoch: -1}
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("%w: %s, sample %d: panic: %v (%s)", ErrFill, f.Name, s.Index, x, panicked())
		}
	}()
	order, key := p.epochOrder(c.Epoch), rng.Named(p.seed, "fill")
	if p.varies {
		s.Epoch = c.Epoch
	}
	if p.varies && p.of > 0 {
		s.Epoch = 0
	}
	for j := range n {
		s.Index = p.row(c.Index+j, order)
		bits := key.At(uint64(s.Index), uint32(s.Epoch))
		s.Seed = uint64(bits[0])<<32 | uint64(bits[1])
		if err := f.Fill(s, j, dst); err != nil {
			return fmt.Errorf("%w: %s, sample %d: %w", ErrFill, f.Name, s.Index, err)
		}
		if err := p.table.sound(j, dst); err != nil {
			return fmt.Errorf("%w: %s, sample %d: %w", ErrFill, f.Name, s.Index, err)
		}
	}
	return nil
}

// panicked is the place of the function that panics.
func panicked() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	seen := false
	for {
		frame, more := frames.Next()
		seen = seen || frame.Function == "runtime.gopanic"
		if seen && !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s, %s:%d", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return "at an unknown place"
		}
	}
}

// sound refuses a row with ids that the model has no room for, and targets outside 0 to
// 1 where the loss needs those.
func (t *table) sound(row int, dst [][]byte) error {
	f := t.filled
	if m := f.Input; m.DType == shape.Int32 {
		if err := within("token", "Tokens", rowOf(dst[0], m, row), f.Tokens); err != nil {
			return err
		}
	}
	if len(dst) < 2 {
		return nil
	}
	m := f.Target
	if m.DType == shape.Int32 {
		return within("class", "Classes", rowOf(dst[1], m, row), f.Classes)
	}
	if t.unit {
		n := m.Elems()
		for _, v := range shape.View[float32](dst[1])[row*n : (row+1)*n] {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("%s", notUnit(v))
			}
		}
	}
	return nil
}

// CheckIDs refuses tokens and classes that the data has no room for, among the fields of
// samples that code has written.
func (i *Info) CheckIDs(fields [][]byte) error {
	if i.Inputs[0].Meta.DType == shape.Int32 {
		if err := within("token", "Tokens", shape.View[int32](fields[0]), i.Tokens); err != nil {
			return err
		}
	}
	if i.Target.Meta.DType == shape.Int32 {
		return within("class", "Classes", shape.View[int32](fields[1]), i.Classes)
	}
	return nil
}

// rowOf is the ids of a row.
func rowOf(dst []byte, m shape.Meta, row int) []int32 {
	n := m.Elems()
	return shape.View[int32](dst)[row*n : (row+1)*n]
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

// AsInputs is the part for evaluation or prediction: no sample of it varies by epoch.
func (p *Part) AsInputs() *Part {
	q := *p
	q.varies = false
	return &q
}

// filledInputs is the inputs of samples that a function writes.
func filledInputs(_ context.Context, s Spec, _ *Info, _ string) (*table, error) {
	if err := s.Filled.check(); err != nil {
		return nil, err
	}
	return s.Filled.table(false, false), nil
}
