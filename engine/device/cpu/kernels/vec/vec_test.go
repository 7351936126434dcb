package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/shape"
)

// tables are the levels that this CPU has.
func tables() map[string]*Funcs {
	t := map[string]*Funcs{"generic": &Generic}
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA && x.HasBMI2 {
		t["avx2"] = &AVX2
	}
	if x.HasAVX512F && x.HasAVX512VL && x.HasAVX512BW && x.HasAVX512DQ {
		t["avx512"] = &AVX512
	}
	return t
}

func TestEveryTableIsWhole(t *testing.T) {
	for name, f := range map[string]*Funcs{"generic": &Generic, "avx2": &AVX2, "avx512": &AVX512} {
		v := reflect.ValueOf(*f)
		for i := range v.NumField() {
			if v.Field(i).IsNil() {
				t.Errorf("%s has no %s", name, v.Type().Field(i).Name)
			}
		}
	}
}

// special are the values that need care.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 1e-45, -1e-45, 1e-40, 1.1754944e-38, 3.4e38, -3.4e38, 88.7, 88.8, 89, 90, -87, -88,
	-103, -103.9, -104, -105, 0.5, 0.625, -0.625, 10, -10, 14, -14, 15, -15, 1e4, -1e4, 1e15, -1e15,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// numbers are special values and random ones of any sign and many magnitudes.
func numbers(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch rng.IntN(8) {
		case 0:
			x[i] = special[rng.IntN(len(special))]
		case 1:
			x[i] = math.Float32frombits(rng.Uint32())
		default:
			x[i] = float32(rng.NormFloat64() * math.Exp(6*rng.Float64()-3))
		}
	}
	return x
}

// distance of two floats in units of the last place, 0 for two NaN.
func distance(a, b float32) int64 {
	if a != a && b != b {
		return 0
	}
	if a != a || b != b {
		return math.MaxInt64
	}
	order := func(f float32) int64 {
		i := int64(math.Float32bits(f))
		if i >= 1<<31 {
			return 1<<31 - i
		}
		return i
	}
	return max(order(a)-order(b), order(b)-order(a))
}

// guarded is a copy at an odd place of a larger array, and a check that
// nothing around it was written.
func guarded(x []float32, rng *rand.Rand) (y []float32, intact func() bool) {
	before := 1 + rng.IntN(16)
	all := make([]float32, before+len(x)+40)
	for i := range all {
		all[i] = 12345
	}
	y = all[before : before+len(x) : before+len(x)]
	copy(y, x)
	return y, func() bool {
		for i, v := range all {
			if (i < before || i >= before+len(x)) && v != 12345 {
				return false
			}
		}
		return true
	}
}

// allowed is how many units in the last place a function on vectors may be off
// from [Generic], which is within 1 of the true value. What is not listed must
// be the same.
var allowed = map[string]int64{
	"Exp": 2, "Log": 1, "Tanh": 2, "Sigmoid": 3, "Silu": 4, "GeluTanh": -1, "GeluErf": 10, "Rsqrt": 2,
	"SqrtGrad": 1, "RsqrtGrad": 2, "SquareGrad": 0, "MulAddTo": -1,
	"SiluGrad": -1, "GeluTanhGrad": -1, "GeluErfGrad": -1,
	"Swiglu": 5, "Geglu": 11, "GegluTanh": -1,
}

// product are the functions that multiply, or divide by, what underflows or
// overflows.
var product = map[string]bool{
	"Silu": true, "GeluTanh": true, "GeluErf": true, "SiluGrad": true, "GeluTanhGrad": true, "GeluErfGrad": true,
	"Swiglu": true, "Geglu": true, "GegluTanh": true,
	"SqrtGrad": true, "RsqrtGrad": true, "MulAddTo": true, "Sigmoid": true,
}

// near compares elements: by units of the last place, or where terms may
// cancel (-1), by the difference.
func near(name string, got, want float32) bool {
	limit := allowed[name]
	if distance(got, want) <= max(limit, 0) {
		return true
	}
	if distance(got, want) <= 4 && math.Abs(float64(want)) < 0x1p-126 && limit != 0 {
		return true // gradual underflow leaves few bits
	}
	if product[name] {
		a, b := math.Abs(float64(got)), math.Abs(float64(want))
		if a < 1e-35 && b < 1e-35 {
			return true // one of the factors has underflowed
		}
		if want != want || b > math.MaxFloat32 {
			return true // infinity times 0: which of them wins is the formula's choice
		}
	}
	slack := 1e-6
	if name == "MulAddTo" { // terms cancel, and quotients are of small numbers
		slack = 1e-4
	}
	return limit < 0 && math.Abs(float64(got)-float64(want)) <= slack*math.Max(1, math.Abs(float64(want)))
}

func TestFunctionsAgreeWithGeneric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(0, 200).Draw(t, "n")
		for level, f := range tables() {
			v, g := reflect.ValueOf(*f), reflect.ValueOf(Generic)
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if v.Field(i).Kind() != reflect.Func {
					continue // the functions over rows, which have tests of their own
				}
				if name == "DropFactors" || name == "Lion" || strings.HasPrefix(name, "Widen") { // see tests of their own
					continue
				}
				if err := agree(name, v.Field(i), g.Field(i), rng, n); err != nil {
					t.Fatalf("%s %s, %d elements: %v", level, name, n, err)
				}
			}
		}
	})
}

// agree runs a function and Generic's on the same random arguments, at random
// places and in place.
func agree(name string, f, g reflect.Value, rng *rand.Rand, n int) error {
	var arrays [2][]reflect.Value
	var checks []func() bool
	sums := f.Type().NumOut() > 0
	for i := range f.Type().NumIn() {
		var a, b reflect.Value
		switch in := f.Type().In(i); {
		case in.Kind() == reflect.Slice:
			x := numbers(rng, n)
			if sums || kind(name) == "MulAddTo" || i == 2 && (strings.HasSuffix(name, "Grad") || strings.Contains(name, "glu")) {
				x = ordinary(rng, n)
			}
			if name == "Adam" && i == 5 { // a mean of squares
				for j := range x {
					x[j] *= x[j]
				}
			}
			y, ok := guarded(x, rng)
			checks = append(checks, ok)
			a, b = reflect.ValueOf(y), reflect.ValueOf(append([]float32(nil), x...))
		case in.Kind() == reflect.Pointer:
			a = reflect.New(in.Elem())
			for j := range a.Elem().NumField() {
				a.Elem().Field(j).SetFloat(rng.Float64())
			}
			b = a
		default:
			a = reflect.ValueOf(rng.NormFloat64()).Convert(in)
			b = a
		}
		arrays[0], arrays[1] = append(arrays[0], a), append(arrays[1], b)
	}
	got, want := f.Call(arrays[0]), g.Call(arrays[1])
	for i := range checks {
		if !checks[i]() {
			return fmt.Errorf("argument %d: wrote outside", i)
		}
	}
	for i := range got {
		x, y := got[i].Float(), want[i].Float()
		if math.Abs(x-y) > 1e-6*math.Max(1, math.Abs(y)) {
			return fmt.Errorf("is %v, want %v", x, y)
		}
	}
	for i := range arrays[0] {
		x, ok := arrays[0][i].Interface().([]float32)
		if !ok {
			continue
		}
		y := arrays[1][i].Interface().([]float32)
		for j := range x {
			if !near(kind(name), x[j], y[j]) {
				return fmt.Errorf("argument %d, element %d is %v, want %v", i, j, x[j], y[j])
			}
		}
	}
	return nil
}

// kind groups the functions with several rounded operations.
func kind(name string) string {
	switch name {
	case "Adam", "SGD", "Momentum", "Nesterov", "ExpSum", "AddScaled":
		return "MulAddTo"
	}
	return name
}

// ordinary are numbers whose sums are not extreme.
func ordinary(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func TestNaNPassesThrough(t *testing.T) {
	nan := float32(math.NaN())
	for level, f := range tables() {
		v := reflect.ValueOf(*f)
		for i := range v.NumField() {
			if v.Field(i).Kind() != reflect.Func {
				continue
			}
			for _, n := range []int{1, 7, 16, 40} {
				x := make([]float32, n)
				x[n-1] = nan
				args := []reflect.Value{reflect.ValueOf(make([]float32, n)), reflect.ValueOf(x)}
				if v.Field(i).Type().NumIn() == 3 && v.Field(i).Type().In(2).Kind() == reflect.Slice {
					args = append(args, reflect.ValueOf(ordinary(rand.New(rand.NewPCG(1, 1)), n)))
				}
				name := v.Type().Field(i).Name
				if v.Field(i).Type().NumIn() != len(args) || v.Field(i).Type().NumOut() > 0 || name == "AbsGrad" || strings.HasPrefix(name, "Widen") {
					continue
				}
				v.Field(i).Call(args)
				if y := args[0].Interface().([]float32)[n-1]; y == y && name != "ReluGrad" {
					t.Errorf("%s %s of NaN is %v", level, name, y)
				}
			}
		}
	}
}

func TestInPlaceIsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for level, f := range tables() {
		x, dy := numbers(rng, 77), numbers(rng, 77)
		y := make([]float32, 77)
		f.GeluTanhGrad(y, x, dy)
		f.GeluTanhGrad(dy, x, dy)
		for i := range y {
			if distance(y[i], dy[i]) != 0 {
				t.Errorf("%s: element %d is %v in place, %v elsewhere", level, i, dy[i], y[i])
			}
		}
	}
}

// TestElementsDoNotDependOnPlace checks that whole and masked vectors give the
// same bits.
func TestElementsDoNotDependOnPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for level, f := range tables() {
		x := numbers(rng, 300)
		y, z := make([]float32, 300), make([]float32, 300)
		for _, g := range []func(y, x []float32){f.Exp, f.Tanh, f.GeluErf, f.GeluTanh, f.Log, f.Silu} {
			g(y, x)
			for i := range x {
				g(z[i:i+1], x[i:i+1])
				if distance(y[i], z[i]) != 0 {
					t.Errorf("%s: element %d of %v is %v, alone %v", level, i, x[i], y[i], z[i])
				}
			}
		}
	}
}

// TestWiden holds every set to the bits, whatever they are, of any number of elements at any place.
func TestWiden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		n, at := rapid.IntRange(0, 300).Draw(t, "n"), rng.IntN(9)
		x := make([]uint16, at+n)[at:]
		for i := range x {
			x[i] = uint16(rng.Uint32())
		}
		for level, f := range tables() {
			y, intact := guarded(make([]float32, n), rng)
			f.Widen(y, x)
			for i, v := range y {
				if got := math.Float32bits(v); got != uint32(x[i])<<16 {
					t.Fatalf("%s: element %d of %d, %04x, is %08x", level, i, n, x[i], got)
				}
			}
			if !intact() {
				t.Fatalf("%s: wrote outside of %d elements", level, n)
			}
		}
	})
}

// TestWidenInt8 holds every set to the numbers in float64, which are exact, of rows of any length at
// any place, with whatever bits are stored but infinite and denormal scales.
func TestWidenInt8(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 6))
		n, at := rapid.IntRange(0, 300).Draw(t, "n"), rng.IntN(9)
		x := make([]byte, at+shape.BlocksBytes(n))[at:]
		for i := range x {
			x[i] = byte(rng.Uint32())
		}
		want := make([]float64, n)
		for from := 0; from < n; from += 32 {
			block := x[from/32*34:]
			exponent := 1 + rng.IntN(254-7) // no product is infinite
			block[0], block[1] = byte(rng.Uint32()&0x7f|uint32(exponent)<<7), byte(exponent>>1|rng.IntN(2)<<7)
			scale := math.Float32frombits(uint32(block[0])<<16 | uint32(block[1])<<24)
			for i := from; i < min(n, from+32); i++ {
				want[i] = float64(scale) * float64(int8(block[2+i-from]))
			}
		}
		for level, f := range tables() {
			y, intact := guarded(make([]float32, n), rng)
			f.WidenInt8(y, x)
			for i, v := range y {
				if float64(v) != want[i] {
					t.Fatalf("%s: element %d of %d is %v, expected %v", level, i, n, v, want[i])
				}
			}
			if !intact() {
				t.Fatalf("%s: wrote outside of %d elements", level, n)
			}
		}
	})
}
