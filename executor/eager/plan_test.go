package eager

import (
	"errors"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// slopeOf records op(x) twice, one after the other, and takes the gradient by x.
func (r *rig) slopeOf(x Tensor, first, second ops.Affine) []float32 {
	r.t.Helper()
	tape := r.NewTape()
	y := tape.One(second, tape.One(first, x.Ref()))
	slopes, err := tape.Gradients(y, x)
	if err := errors.Join(err, tape.Close(), y.Release()); err != nil {
		r.t.Fatal(err)
	}
	return r.value(slopes[0])
}

// A plan is used again for the same calls only: attributes, shapes, what is asked for and
// which tensors are read tell traces apart.
func TestPlansAreOfTheirTrace(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x, wide := r.floats([]float32{1, 2}, 2), r.floats([]float32{1, 2, 3}, 3)
	for range 3 { // replayed, then compiled
		for _, c := range []struct {
			x             Tensor
			first, second float64
			want          float64
		}{{x, 2, 3, 6}, {x, 3, 2, 6}, {x, 2, 5, 10}, {wide, 2, 3, 6}, {x, 2, 0, 0}, {x, 2, math.Copysign(0, -1), 0}} {
			for _, got := range r.slopeOf(c.x, ops.Affine{Scale: c.first}, ops.Affine{Scale: c.second}) {
				if float64(got) != c.want {
					t.Errorf("the slope of %v and %v is %v, expected %v", c.first, c.second, got, c.want)
				}
			}
		}
	}
	if n := r.plans.size; n != 6 {
		t.Errorf("%d plans, expected 6", n)
	}
	for range 3 {
		tape := r.NewTape()
		y := tape.One(ops.Binary{Fn: "mul"}, x.Ref(), x.Ref())
		z := tape.One(ops.Binary{Fn: "mul"}, y, x.Ref())
		one, err1 := tape.Gradients(z, x)
		two, err2 := tape.Gradients(z, y, x)
		of, err3 := tape.Gradients(y, x)
		if err := errors.Join(err1, err2, err3, tape.Close()); err != nil {
			t.Fatal(err)
		}
		r.expect(one[0], 3, 12)
		r.expect(two[0], 1, 2)
		r.expect(two[1], 3, 12)
		r.expect(of[0], 2, 4)
		r.expect(z, 1, 8)
	}
	if err := errors.Join(x.Release(), wide.Release()); err != nil {
		t.Error(err)
	}
}

// A program whose every tape is another one keeps a bounded number of plans, and of
// executables.
func TestPlansAreBounded(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1}, 1)
	for i := range plansSize + 10 {
		if got := r.slopeOf(x, ops.Affine{Scale: float64(i)}, ops.Affine{Scale: 1}); got[0] != float32(i) {
			t.Fatalf("the slope is %v, expected %d", got, i)
		}
	}
	if n := r.plans.size; n > plansSize {
		t.Errorf("%d plans are kept, at most %d may be", n, plansSize)
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}

// A function may have more results than other ops: a training has many gradients.
func TestManyGradients(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	var list []Tensor
	for i := range 2 * maxOutputs {
		list = append(list, r.floats([]float32{[]float32{2, 0.5, 4}[i%3]}, 1))
	}
	for range 3 {
		tape := r.NewTape()
		y := list[0].Ref()
		for _, x := range list[1:] {
			y = tape.One(ops.Binary{Fn: "mul"}, y, x.Ref())
		}
		slopes, err := tape.Gradients(y, list...)
		if err := errors.Join(err, tape.Close()); err != nil {
			t.Fatal(err)
		}
		product := r.value(y)[0]
		for i, g := range slopes {
			r.expect(g, product/[]float32{2, 0.5, 4}[i%3])
		}
	}
	for _, x := range list {
		if err := x.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A failure of the data fails a compiled plan as it fails single ops.
func TestPlanThatFails(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	table, ids := r.floats([]float32{1, 2, 3, 4}, 2, 2), r.ints([]int32{7}, 1)
	for range 3 {
		tape := r.NewTape()
		y := tape.One(ops.Gather{}, table.Ref(), ids.Ref())
		slopes, err := tape.Gradients(y, table)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, y.Wait(bg), nil, "token 7")
		fails(t, slopes[0].Wait(bg), nil, "plan_test.go:", "token 7")
		if !slopes[0].Meta().Equal(shape.F32(2, 2)) {
			t.Errorf("the gradient is %v", slopes[0].Meta())
		}
		if err := errors.Join(tape.Close(), y.Release(), slopes[0].Release()); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(table.Release(), ids.Release()); err != nil {
		t.Error(err)
	}
}
