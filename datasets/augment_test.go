package datasets

import (
	"context"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// pixelsOf is an image whose pixels are numbers from 1 on.
func pixelsOf(m shape.Meta) []float32 {
	pixels := make([]float32, m.Elems())
	for i := range pixels {
		pixels[i] = float32(i + 1)
	}
	return pixels
}

// outcomes are what a change makes of an image, for many keys.
func outcomes(m shape.Meta, x Augment) (list [][]float32) {
	a := newAugmenter([]Augment{x}, m)
	for i := range 2000 {
		pixels := pixelsOf(m)
		a.apply(pixels, rng.NewKey(5, uint64(i)))
		list = append(list, pixels)
	}
	return list
}

func TestFlip(t *testing.T) {
	m := shape.F32(2, 1, 3)
	flipped := 0
	for _, got := range outcomes(m, Augment{Name: "flip"}) {
		switch {
		case slices.Equal(got, []float32{3, 2, 1, 6, 5, 4}):
			flipped++
		case !slices.Equal(got, pixelsOf(m)):
			t.Fatalf("flip gives %v", got)
		}
	}
	if flipped < 900 || flipped > 1100 {
		t.Errorf("%d of 2000 are flipped", flipped)
	}
}

func TestCrop(t *testing.T) {
	m := shape.F32(1, 3, 4)
	seen := map[[2]int]int{}
	for _, got := range outcomes(m, Augment{"crop", 2}) {
		at := slices.IndexFunc(got, func(v float32) bool { return v != 0 })
		if at < 0 {
			t.Fatal("nothing is left")
		}
		from := int(got[at]) - 1
		dy, dx := at/4-from/4, at%4-from%4
		seen[[2]int{dy, dx}]++
		for i, v := range got {
			y, x, want := i/4-dy, i%4-dx, float32(0)
			if y >= 0 && y < 3 && x >= 0 && x < 4 {
				want = float32(y*4 + x + 1)
			}
			if v != want {
				t.Fatalf("moved by %d, %d: %v", dy, dx, got)
			}
		}
	}
	if len(seen) != 25 {
		t.Errorf("moves %v, want 25 of them", seen)
	}
	for _, got := range outcomes(shape.F32(1, 1, 2), Augment{"crop", 9}) { // farther than the image is wide
		if v := got[0]; v != 0 && v != 1 && v != 2 {
			t.Fatalf("crop gives %v", got)
		}
	}
}

func TestRotate(t *testing.T) {
	m := shape.F32(1, 5, 5)
	a := newAugmenter(nil, m)
	if a != nil {
		t.Fatal("an augmenter without changes")
	}
	a = newAugmenter([]Augment{{"rotate", 90}}, m)
	src, dst := pixelsOf(m), make([]float32, 25)
	a.rotate(dst, src, 180, [4]uint32{0xc0000000}) // a quarter turn: (2·0.75-1)·180 degrees
	for y := range 5 {
		for x := range 5 {
			if want := src[(4-x)*5+y]; math.Abs(float64(dst[y*5+x]-want)) > 1e-4 {
				t.Errorf("row %d, column %d: %v, want %v", y, x, dst[y*5+x], want)
			}
		}
	}
	a.rotate(dst, src, 180, [4]uint32{0x80000000}) // none
	if !slices.Equal(dst, src) {
		t.Errorf("no turn: %v", dst)
	}
	for _, got := range outcomes(m, Augment{"rotate", 10}) {
		if math.Abs(float64(got[12]-13)) > 1e-4 {
			t.Fatalf("the middle is %v", got[12])
		}
	}
}

func TestErase(t *testing.T) {
	m := shape.F32(2, 10, 10)
	erased := 0
	for _, got := range outcomes(m, Augment{"erase", 0.25}) {
		n := 0
		for i, v := range got[:100] {
			if v == 0 {
				n++
			}
			if (v == 0) != (got[100+i] == 0) {
				t.Fatal("channels are cleared in different places")
			}
		}
		if n > 0 {
			erased++
		}
		if n > 40 {
			t.Fatalf("%d of 100 pixels are cleared", n)
		}
	}
	if erased < 430 || erased > 570 {
		t.Errorf("%d of 2000 are cleared", erased)
	}
}

// A sample is the same read alone or in a batch, from any place and by rows; it differs from epoch to epoch, and not where
// it validates.
func TestAugmented(t *testing.T) {
	dir := photos(t, 20)
	for i := range 5 { // shapes that a flip changes
		put(t, filepath.Join(dir, "sea", "edge"+string(rune('a'+i))+".png"), plainPNG(t, 4, 2, color.NRGBA{200, 0, 0, 255}))
	}
	s := Spec{Source: "images", Path: dir, Seed: 3, Pictures: PictureOptions{Height: 4, Width: 4, Augment: []Augment{{Name: "flip"}, {"crop", 1}, {"rotate", 10}, {"erase", 0.5}}}}
	ds, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	p := ds.Train
	whole, _ := allOf(t, p, 1)
	one := p.Alloc(1)
	for i := range p.Len() {
		if _, err := p.Read(Cursor{1, i}, 1, one); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(shape.View[float32](one[0]), whole[48*i:][:48]) {
			t.Fatalf("sample %d differs where it is read alone", i)
		}
	}
	rows := p.Alloc(p.Len())
	if _, err := p.ReadRows(Cursor{Epoch: 1}, p.Len(), []Rows{{5, 9}}, rows); err != nil || !slices.Equal(shape.View[float32](rows[0])[48*5:48*9], whole[48*5:48*9]) {
		t.Errorf("rows 5 to 9 differ: %v", err)
	}
	plain, _ := allOf(t, p.AsInputs(), 1)
	first, _ := allOf(t, p.InOrder(), 0)
	second, _ := allOf(t, p.InOrder(), 1)
	if slices.Equal(plain, whole) || slices.Equal(first, second) {
		t.Error("nothing is changed, or alike in each epoch")
	}
	s.Pictures.Augment = nil
	without, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := allOf(t, without.Train, 1)
	val, _ := allOf(t, ds.Val, 0)
	valWithout, _ := allOf(t, without.Val, 0)
	if !slices.Equal(plain, want) || !slices.Equal(val, valWithout) {
		t.Error("images are changed that do not train")
	}
	if ds.Info.Fingerprint == without.Info.Fingerprint {
		t.Error("the fingerprint leaves the changes out")
	}
	repeated := p.FirstBatch(8)
	a, _ := allOf(t, repeated, 0)
	b, _ := allOf(t, repeated, 3)
	if !slices.Equal(a, b) {
		t.Error("a batch that is read again and again differs")
	}
}

func BenchmarkAugmented(b *testing.B) {
	m := shape.F32(3, 32, 32)
	for name, list := range map[string][]Augment{"flip and crop": {{Name: "flip"}, {"crop", 4}}, "all": {{Name: "flip"}, {"crop", 4}, {"rotate", 10}, {"erase", 0.25}}} {
		b.Run(name, func(b *testing.B) {
			a, pixels := newAugmenter(list, m), pixelsOf(m)
			for i := range b.N {
				a.apply(pixels, rng.NewKey(1, uint64(i)))
			}
		})
	}
}

// Each sample is mixed with another of its batch, as they are by themselves, and so are their classes.
func TestMixup(t *testing.T) {
	s := Spec{Source: "images", Path: photos(t, 30), Seed: 3, Pictures: PictureOptions{Augment: []Augment{{"crop", 1}}}}
	open := func() *Part {
		ds, err := Open(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		return ds.Train
	}
	plain := open()
	s.Pictures.Augment = append(s.Pictures.Augment, Augment{"mixup", 0.4})
	p := open()
	if got := p.Fields()[1].Meta.String() + p.AsInputs().Fields()[1].Meta.String(); got != "f32[2]i32[]" {
		t.Errorf("targets are %s", got)
	}
	const n = 16
	at := Cursor{Epoch: 1, Index: n}
	alone, mixed, part := plain.Alloc(n), p.Alloc(n), p.Alloc(n)
	for _, x := range []struct {
		p    *Part
		rows []Rows
		dst  [][]byte
	}{{plain, nil, alone}, {p, nil, mixed}, {p, []Rows{{3, 5}}, part}} {
		if _, err := x.p.ReadRows(at, n, x.rows, x.dst); err != nil {
			t.Fatal(err)
		}
	}
	images, classes := shape.View[float32](alone[0]), shape.View[int32](alone[1])
	pixels, shares := shape.View[float32](mixed[0]), shape.View[float32](mixed[1])
	both := 0
	for j := range n {
		if sum := shares[2*j] + shares[2*j+1]; math.Abs(float64(sum)-1) > 1e-6 {
			t.Errorf("the shares of sample %d are %v in all", j, sum)
		}
		found := false
		for k := range n { // with which one?
			if classes[j] == classes[k] && j != k {
				continue // any share
			}
			share, fits := float64(shares[2*j+int(classes[j])]), true
			for i := range 48 {
				want := share*float64(images[48*j+i]) + (1-share)*float64(images[48*k+i])
				fits = fits && math.Abs(float64(pixels[48*j+i])-want) < 1e-5
			}
			found = found || fits
		}
		if share := shares[2*j]; share > 0.001 && share < 0.999 {
			both++
			if !found {
				t.Errorf("sample %d is no mixture of two of the batch", j)
			}
		}
	}
	if both < 2 {
		t.Errorf("%d of %d samples have two classes", both, n)
	}
	if !slices.Equal(shape.View[float32](part[0])[48*3:48*5], pixels[48*3:48*5]) || !slices.Equal(shape.View[float32](part[1])[6:10], shares[6:10]) {
		t.Error("rows by themselves are mixed otherwise")
	}
}

// The shares of mixup have the mean and the deviation of the distribution beta(a, a).
func TestMixupShare(t *testing.T) {
	for _, a := range []float64{0.01, 0.2, 1} {
		const n = 20000
		var sum, squares float64
		for i := range n {
			v := mixupShare(rng.NewKey(2, uint64(i)), a) - 0.5
			sum += v
			squares += v * v
		}
		if want := 1 / (4 * (2*a + 1)); math.Abs(sum/n) > 0.012 || math.Abs(squares/n-want) > 0.03*want {
			t.Errorf("a = %v: mean %v and variance %v, want 0.5 and %v", a, sum/n+0.5, squares/n, want)
		}
	}
}
