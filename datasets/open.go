package datasets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// A format opens the data of one source.
type format struct {
	source string
	open   func(context.Context, Spec) (*Dataset, error)
	// inputs reads the inputs at a path, a table for each shape of sample.
	inputs func(context.Context, Spec, *Info, string) ([]*table, error)
}

// formats lists the formats, one for each source.
var formats = []format{
	{"digits", openDigits, oneTable(digitsInputs)},
	{"mnist", openMNIST, oneTable(mnistInputs)},
	{"images", openPictures, oneTable(pictureInputs)},
	{"csv", openCSV, oneTable(csvInputs)},
	{"text", openText, textInputs},
	{"lines", openLines, oneTable(linesInputs)},
	{"tensors", openTensors, oneTable(tensorsInputs)},
}

// Sources lists the valid values of Spec.Source.
func Sources() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.source
	}
	return names
}

// formatOf gives the format of a spec that can be followed.
func formatOf(s Spec) (format, error) {
	if s.Filled != nil {
		return format{s.Source, openFilled, oneTable(filledInputs)}, s.check()
	}
	for _, f := range formats {
		if f.source == s.Source {
			return f, s.check()
		}
	}
	return format{}, fmt.Errorf("%w: source %q is unknown: use one of %s", ErrSpec, s.Source, strings.Join(Sources(), ", "))
}

// oneTable adapts a format whose samples have one shape.
func oneTable(f func(context.Context, Spec, *Info, string) (*table, error)) func(context.Context, Spec, *Info, string) ([]*table, error) {
	return func(ctx context.Context, s Spec, info *Info, path string) ([]*table, error) {
		t, err := f(ctx, s, info, path)
		return []*table{t}, err
	}
}

// Open reads the data that s describes. It blocks; ctx can end it early. The
// data stays in memory as long as the Dataset is referenced.
func Open(ctx context.Context, s Spec) (*Dataset, error) {
	f, err := formatOf(s)
	if err != nil {
		return nil, err
	}
	ds, err := f.openDivided(ctx, s)
	if errors.Is(err, fs.ErrNotExist) && Blame(err) == "path" {
		if missing, ok := errors.AsType[*fs.PathError](err); ok && len(s.Text.More) > 0 {
			s.Path = missing.Path
		}
		err = fmt.Errorf("%w: %s", err, s.pathAdvice())
	}
	if err == nil && s.Like != nil {
		err = ds.follow(s)
	}
	if err == nil && s.Balance && ds.Info.Balanced == nil && (s.Like == nil || s.GoesOn) {
		ds.Info.Balanced, err = ds.Train.balance(ctx, &ds.Info)
	}
	if err != nil {
		return nil, err
	}
	ds.keepChat(s)
	return ds, nil
}

// openDivided opens the data, and the parts that have files of their own. Those are read as the
// data of a model that was trained on the rest.
func (f format) openDivided(ctx context.Context, s Spec) (*Dataset, error) {
	d := s.Division
	if d == nil || d.ValPath == "" && d.TestPath == "" {
		return f.open(ctx, s)
	}
	if err := d.checkPaths(s); err != nil {
		return nil, err
	}
	main := s
	if s.Like != nil { // its fingerprint is followed by those of the parts
		like := *s.Like
		like.Fingerprint, _, _ = strings.Cut(like.Fingerprint, "+")
		main.Like = &like
	}
	ds, err := f.open(ctx, main)
	if err != nil || main.otherData(ds.Info.Fingerprint) {
		return ds, err
	}
	own := cmp.Or(main.Like, &ds.Info)
	for _, p := range []struct {
		option, path string
		into         **Part
	}{{"split.val", d.ValPath, &ds.Val}, {"split.test", d.TestPath, &ds.Test}} {
		if p.path == "" {
			continue
		}
		one, err := f.openPart(ctx, s, own, p.path)
		if err != nil {
			return nil, blame(p.option, err)
		}
		one.Train.shuffle = false
		*p.into = one.Train
		for _, note := range one.Notes {
			ds.Notes = append(ds.Notes, p.path+": "+note)
		}
		ds.Info.Fingerprint += "+" + one.Info.Fingerprint
	}
	return ds, nil
}

// openPart opens the file of a part, for a model that was trained on other data.
func (f format) openPart(ctx context.Context, s Spec, like *Info, path string) (*Dataset, error) {
	s.Path, s.Text.More, s.Like = path, nil, like
	s.Division, s.Split, s.GoesOn, s.Describe = nil, 1, false, false
	ds, err := f.open(ctx, s)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: name an existing file, or give a share such as 0.1", err)
	}
	if err == nil {
		err = ds.follow(s)
	}
	return ds, err
}

// checkPaths refuses a part that is the data that is trained on.
func (d *Division) checkPaths(s Spec) error {
	if s.Filled != nil || s.Path == "" {
		return blame("split", fmt.Errorf("%w: the split: parts have files only where the data is read from files: give shares such as 0.1", ErrSpec))
	}
	same := func(a, b string) bool {
		x, err := os.Stat(a)
		y, other := os.Stat(b)
		return a == b || err == nil && other == nil && os.SameFile(x, y)
	}
	for _, p := range [][3]string{{"split.val", d.ValPath, s.Path}, {"split.test", d.TestPath, s.Path}, {"split.test", d.TestPath, d.ValPath}} {
		if p[1] != "" && p[2] != "" && same(p[1], p[2]) {
			return blame(p[0], fmt.Errorf("%w: %s is the data of another part, too: name another file, or give a share such as 0.1", ErrSpec, p[1]))
		}
	}
	return nil
}

// follow checks that the data has the shapes of s.Like and no more classes or
// tokens, and replaces its Info, except for the fingerprint.
func (ds *Dataset) follow(s Spec) error {
	like, have := s.Like, &ds.Info
	for _, f := range [][2]Field{{have.Inputs[0], like.Inputs[0]}, {have.Target, like.Target}} {
		if !f[0].Meta.Equal(f[1].Meta) {
			return fmt.Errorf("%w: %s: the %s of a sample is %v, but the model was trained on %v: use samples of that shape", ErrFormat, s.Path, f[0].Name, f[0].Meta, f[1].Meta)
		}
	}
	if err := sameInputs(s.Path, len(have.Inputs), like); err != nil {
		return err
	}
	if have.Classes > like.Classes {
		return fmt.Errorf("%w: %s has %s, but the model was trained on %s: take the samples of other classes out", ErrFormat, s.Path, units.Count(have.Classes, "class"), units.Thousands(like.Classes))
	}
	if have.Tokens > like.Tokens {
		return fmt.Errorf("%w: %s has %s, but the model was trained on %s: take the samples with other tokens out", ErrFormat, s.Path, units.Count(have.Tokens, "token"), units.Thousands(like.Tokens))
	}
	print := have.Fingerprint
	ds.Info = *like
	ds.Info.Fingerprint = print
	return nil
}

// OpenInputs reads the samples at path, in the format of s, for a model to
// predict from. They have no targets and keep their order; targets in the file
// are ignored. info describes the data that the model was trained on: its
// scaling, vocabulary and shapes apply. Each part holds samples of one shape;
// the last window of a text has a part of its own if it is shorter.
func OpenInputs(ctx context.Context, s Spec, info *Info, path string) ([]*Part, error) {
	s.Path = cmp.Or(s.Path, path) // that of training may not be known
	f, err := formatOf(s)
	if err != nil {
		return nil, err
	}
	ts, err := f.inputs(ctx, s, info, path)
	if err != nil {
		return nil, err
	}
	var parts []*Part
	for _, t := range ts {
		have, want := t.columns[0].field.Meta, info.Inputs[0].Meta
		if err := sameInputs(path, len(t.columns), info); err != nil {
			return nil, err
		}
		if !have.Equal(want) && !shorter(have, want) {
			return nil, fmt.Errorf("%w: %s: a sample is %v, but the model was trained on %v: use samples of that shape", ErrFormat, path, have, want)
		}
		parts = append(parts, &Part{table: t, count: t.rows, ordered: true})
	}
	return parts, nil
}

// sameInputs refuses samples with a length for a model that was trained on others, and those
// without.
func sameInputs(path string, inputs int, like *Info) error {
	switch {
	case inputs == len(like.Inputs):
		return nil
	case like.Buckets != nil:
		return fmt.Errorf("%w: %s: the model was trained on sequences of different lengths: give the length of each sample", ErrFormat, path)
	}
	return fmt.Errorf("%w: %s: the samples have lengths, and the model was trained on samples of one shape: use such samples", ErrFormat, path)
}

// shorter reports whether a sample is the beginning of a window of ids.
func shorter(have, window shape.Meta) bool {
	ids := have.DType == shape.Int32 && window.DType == shape.Int32
	return ids && have.Shape.Rank() == 1 && window.Shape.Rank() == 1 && have.Shape[0] < window.Shape[0]
}
