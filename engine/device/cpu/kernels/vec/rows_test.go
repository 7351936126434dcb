package vec

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryTableOfRowsIsWhole(t *testing.T) {
	for name, f := range tables() {
		for _, v := range []reflect.Value{reflect.ValueOf(*f.Rows), reflect.ValueOf(*f.Columns), reflect.ValueOf(*f.Narrow)} {
			for i := range v.NumField() {
				if v.Field(i).IsNil() {
					t.Errorf("%s has no %s", name, v.Type().Field(i).Name)
				}
			}
		}
	}
}

// eachTable runs a check with every set with random sizes.
func eachTable(t *testing.T, check func(t *rapid.T, f *Funcs, rng *rand.Rand, n int)) {
	for set, f := range tables() {
		t.Run(set, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				check(t, f, rng, rapid.IntRange(0, 150).Draw(t, "n"))
			})
		})
	}
}

// same compares elements by |got-want| <= tol*(1+|want|), and NaN with NaN.
// Close to infinity anything large will do: exp's argument was rounded.
func same(t *rapid.T, what string, got, want []float32, tol float64) {
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if w > 1e30 && g > 1e30 {
			continue
		}
		if !(math.Abs(g-w) <= tol*(1+math.Abs(w))) && g != w && !(g != g && w != w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

func TestRowsAgreeWithGeneric(t *testing.T) {
	eachTable(t, func(t *rapid.T, f *Funcs, rng *rand.Rand, n int) {
		var got, want [5][]float32
		var intact [5]func() bool
		for i := range got {
			want[i] = ordinary(rng, n)
			if rng.IntN(8) == 0 && n > 0 {
				want[i][rng.IntN(n)] = special[len(special)-1-rng.IntN(3)] // not finite
			}
			got[i], intact[i] = guarded(want[i], rng)
		}
		a, b, c := rng.Float32(), rng.Float32(), rng.Float32()
		for _, call := range []struct {
			name string
			of   func(f *Funcs, x [5][]float32) []float32
		}{
			{"SumExp", func(f *Funcs, x [5][]float32) []float32 { return []float32{float32(f.SumExp(x[0], a))} }},
			{"DotFrom", func(f *Funcs, x [5][]float32) []float32 { return []float32{float32(f.DotFrom(x[0], x[1], float64(a)))} }},
			{"SquaredDistance", func(f *Funcs, x [5][]float32) []float32 { return []float32{float32(f.SquaredDistance(x[0], x[1]))} }},
			{"LogisticLoss", func(f *Funcs, x [5][]float32) []float32 { return []float32{float32(f.LogisticLoss(x[0], x[1]))} }},
			{"SquaredDistanceGrad", func(f *Funcs, x [5][]float32) []float32 { f.SquaredDistanceGrad(x[0], x[1], x[0], a); return x[0] }},
			{"LogisticLossGrad", func(f *Funcs, x [5][]float32) []float32 { f.LogisticLossGrad(x[0], x[1], x[0], a); return x[0] }},
			{"MulFrom", func(f *Funcs, x [5][]float32) []float32 { f.MulFrom(x[0], x[1], x[0], a); return x[0] }},
			{"LessExp", func(f *Funcs, x [5][]float32) []float32 { f.LessExp(x[0], x[1], x[0], a); return x[0] }},
			{"ExpScaled", func(f *Funcs, x [5][]float32) []float32 { f.ExpScaled(x[0], x[0], a, b); return x[0] }},
			{"Normalize", func(f *Funcs, x [5][]float32) []float32 { f.Normalize(x[0], x[1], x[2], x[3], a, b, c); return x[0] }},
			{"NormGradSums", func(f *Funcs, x [5][]float32) []float32 {
				s, sh := f.NormGradSums(x[0], x[1], x[2], x[3], x[4], a, b)
				return append([]float32{float32(s), float32(sh)}, append(x[0], x[1]...)...)
			}},
			{"NormGrad", func(f *Funcs, x [5][]float32) []float32 { f.NormGrad(x[0], x[1], x[0], x[2], a, b, c, a); return x[0] }},
			{"Rotate", func(f *Funcs, x [5][]float32) []float32 {
				half := n / 2
				f.Rotate(x[0], x[0], x[1][:half], x[2][:half])
				return x[0]
			}},
			{"Standardize", func(f *Funcs, x [5][]float32) []float32 { f.Standardize(x[0], x[0], a, b, c, a); return x[0] }},
			{"StandardizeGrad", func(f *Funcs, x [5][]float32) []float32 {
				f.StandardizeGrad(x[0], x[1], x[0], a, b, c, a)
				return x[0]
			}},
		} {
			g, w := call.of(f, got), call.of(&Generic, want)
			same(t, call.name, g, w, 1e-5)
			for i := range got {
				if !intact[i]() {
					t.Fatalf("%s: argument %d: wrote outside", call.name, i)
				}
				copy(got[i], want[i])
			}
		}
	})
}

func TestRowDotsAndZeros(t *testing.T) {
	eachTable(t, func(t *rapid.T, f *Funcs, rng *rand.Rand, n int) {
		rows, stride, other := 1+rng.IntN(5), n+rng.IntN(20), n+rng.IntN(20)
		x, y := ordinary(rng, rows*stride+1), ordinary(rng, rows*other+1)
		out, want := make([]float32, 3*rows), make([]float32, 3*rows)
		f.RowDots(&out[0], 3, &x[0], stride, &y[0], other, rows, n)
		rowDots(&want[0], 3, &x[0], stride, &y[0], other, rows, n)
		same(t, "dots", out, want, 1e-5)
		if z := f.Zeros(&x[0], stride, rows, n); z != 0 {
			t.Fatalf("zeros of finite rows: got %v", z)
		}
		if n == 0 {
			return
		}
		at := rng.IntN(rows)*stride + rng.IntN(n)
		x[at] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[rng.IntN(3)]
		if z := f.Zeros(&x[0], stride, rows, n); z == z {
			t.Fatalf("zeros of rows with %v: got %v", x[at], z)
		}
	})
}

// TestAttendRows masks with anything.
func TestAttendRows(t *testing.T) {
	eachTable(t, func(t *rapid.T, f *Funcs, rng *rand.Rand, n int) {
		n++
		rows := 1 + rng.IntN(8)
		width := (n+rows-1+15)&^15 + 16*rng.IntN(3)
		ld := width + 16
		const room = 2 * AttendRows
		p, d := numbers(rng, room*ld), numbers(rng, rows*ld)
		for r := range rows {
			copy(p[r*ld:], ordinary(rng, n+r))
			copy(d[r*ld:], ordinary(rng, n+r))
		}
		if rng.IntN(4) == 0 { // NaN in one row must stay there
			p[rng.IntN(rows)*ld] = float32(math.NaN())
		}
		stats := ordinary(rng, 2*rows)
		for i := range stats {
			stats[i] += 3
		}
		p2, d2, stats2 := append([]float32(nil), p...), append([]float32(nil), d...), append([]float32(nil), stats...)
		p3, stats3 := append([]float32(nil), p...), make([]float32, 2*room)
		p4, stats4 := append([]float32(nil), p...), make([]float32, 2*room)
		f.AttendGrad(&p[0], &d[0], ld, rows, n, width, 0.3, &stats[0])
		attendGrad(&p2[0], &d2[0], ld, rows, n, width, 0.3, &stats2[0])
		f.Attend(&p3[0], ld, rows, n, width, 0.3, &stats3[0], &stats3[room])
		attend(&p4[0], ld, rows, n, width, 0.3, &stats4[0], &stats4[room])
		for r := range rows {
			at := r * ld
			same(t, "p", p[at:at+width], p2[at:at+width], 3e-6)
			same(t, "d", d[at:at+width], d2[at:at+width], 1e-5)
			same(t, "softmax", p3[at:at+width], p4[at:at+width], 2e-6)
		}
		same(t, "most", stats3[:rows], stats4[:rows], 2e-6)
		same(t, "sums", stats3[room:room+rows], stats4[room:room+rows], 2e-6)
	})
}
