package datasets

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// Check refuses an Info that was decoded from elsewhere and does not hold together.
func (i *Info) Check() error {
	inputs := 1
	if i.Buckets != nil {
		inputs = 2 // the length, too
	}
	if len(i.Inputs) != inputs {
		return fmt.Errorf("%w: samples have %d inputs, expected %d", ErrSpec, len(i.Inputs), inputs)
	}
	for _, f := range append(slices.Clone(i.Inputs), i.Target) {
		if f.Meta.DType != shape.Float32 && f.Meta.DType != shape.Int32 {
			return fmt.Errorf("%w: %q is %v, expected f32 or i32", ErrSpec, f.Name, f.Meta)
		}
		if err := f.Meta.Shape.Validate(); err != nil {
			return fmt.Errorf("%w: %q: %w", ErrSpec, f.Name, err)
		}
	}
	for _, check := range []func() error{i.checkBuckets, i.checkNumbers, i.checkNames, i.checkScaling} {
		if err := check(); err != nil {
			return err
		}
	}
	if i.Pictures != nil {
		return i.Pictures.check(i.Inputs[0].Meta)
	}
	return nil
}

// checkBuckets checks the positions to which samples are padded.
func (i *Info) checkBuckets() error {
	if i.Buckets == nil {
		return nil
	}
	s := i.Inputs[0].Meta.Shape
	if len(i.Buckets) == 0 || i.Buckets[0] < 1 || !slices.IsSorted(i.Buckets) || s.Rank() == 0 || s[0] != i.Buckets[len(i.Buckets)-1] {
		return fmt.Errorf("%w: the buckets are %v, and the longest sample is %v", ErrSpec, i.Buckets, s)
	}
	return nil
}

// checkNumbers checks the numbers of classes and tokens.
func (i *Info) checkNumbers() error {
	if classes := i.Target.Meta.DType == shape.Int32; i.Classes < 0 || !classes && i.Classes > 0 {
		return fmt.Errorf("%w: there are %d classes, and a target is %v", ErrSpec, i.Classes, i.Target.Meta)
	}
	if ids := i.Inputs[0].Meta.DType == shape.Int32; i.Tokens < 0 || !ids && i.Tokens > 0 {
		return fmt.Errorf("%w: there are %d tokens, and an input is %v", ErrSpec, i.Tokens, i.Inputs[0].Meta)
	}
	return nil
}

// checkNames checks that there are as many names as what they are of.
func (i *Info) checkNames() error {
	for _, x := range []struct {
		what  string
		names []string
		of    int
	}{
		{"classes", i.ClassNames, i.Classes}, {"labels", i.TargetNames, i.Target.Meta.Elems()}, {"features", i.Features, i.Inputs[0].Meta.Elems()},
	} {
		if x.names != nil && len(x.names) != x.of {
			return fmt.Errorf("%w: there are %d names for %d %s", ErrSpec, len(x.names), x.of, x.what)
		}
	}
	if n := i.Inputs[0].Meta.Elems(); i.Columns != nil && i.Columns.Features() != n {
		return fmt.Errorf("%w: the columns of a row have %d features, and a sample has %d numbers", ErrSpec, i.Columns.Features(), n)
	}
	return nil
}

// checkScaling checks scalings against what they scale.
func (i *Info) checkScaling() error {
	for _, x := range []struct {
		scaling *Scaling
		of      Field
	}{{i.Scaling, i.Inputs[0]}, {i.TargetScaling, i.Target}} {
		if x.scaling == nil {
			continue
		}
		if err := x.scaling.check(x.of.Meta.Elems()); err != nil {
			return err
		}
		for j, std := range x.scaling.Std {
			if !(math.Abs(x.scaling.Mean[j]) < math.MaxFloat64 && std > 0 && std < math.MaxFloat64) {
				return fmt.Errorf("%w: number %d of %q has mean %v and deviation %v", ErrSpec, j, x.of.Name, x.scaling.Mean[j], std)
			}
		}
	}
	return nil
}
