package datasets

import (
	"context"
	"image/color"
	"math"
	"math/rand/v2"
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

// imageColumn is an image of bytes as a column, whose bytes read as themselves less so much.
func imageColumn(m shape.Meta, bytes []byte, less float32) *column {
	c := pixelColumn(Field{"input", m}, bytes, make([][256]float32, m.Shape[0]))
	for channel := range c.scale {
		for v := range 256 {
			c.scale[channel][v] = float32(v) - less
		}
	}
	return &c
}

// outcomes are what a change makes of pixelsOf, for many keys.
func outcomes(m shape.Meta, x Augment) (list [][]float32) {
	a := newAugmenter([]Augment{x}, m)
	var bytes []byte
	for _, v := range pixelsOf(m) {
		bytes = append(bytes, byte(v))
	}
	c := imageColumn(m, bytes, 0)
	for i := range 2000 {
		pixels := make([]float32, m.Elems())
		a.read(pixels, c, 0, rng.NewKey(5, uint64(i)))
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

// Changes by themselves, one pixel after the other, give the same bits as read.
func TestChangesByThemselves(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	all := []Augment{{Name: "flip"}, {"crop", 2}, {"crop", 40}, {"rotate", 10}, {"rotate", 180}, {"erase", 0.5}}
	for range 2000 {
		m := shape.F32(1+2*random.IntN(2), 1+random.IntN(20), 1+random.IntN(20))
		var list []Augment
		for range 1 + random.IntN(6) {
			list = append(list, all[random.IntN(len(all))])
		}
		bytes := make([]byte, m.Elems())
		for i := range bytes {
			bytes[i] = byte(random.IntN(256))
		}
		c, key, a := imageColumn(m, bytes, 100.3), rng.NewKey(seed, random.Uint64()), newAugmenter(list, m)
		got, want := make([]float32, m.Elems()), make([]float32, m.Elems())
		got[0] = 1 // all is written
		c.fill(0, shape.Bytes(want))
		for i, x := range list {
			want = changed(want, m.Shape, x, a, key, i)
		}
		if a.read(got, c, 0, key); !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("seed %d: %v of %v gives\n%v, want\n%v", seed, list, m, got, want)
		}
	}
}

// changed is an image after change i of a list: the plain way.
func changed(in []float32, s shape.Shape, x Augment, a *augmenter, key rng.Key, i int) []float32 {
	w := key.At(uint64(i), 0)
	height, width := s[1], s[2]
	at := func(channel, y, x int) float32 {
		if x < 0 || y < 0 || x >= width || y >= height {
			return 0
		}
		return in[(channel*height+y)*width+x]
	}
	if x.Name == "erase" { // whose rectangle is random alone
		out := slices.Clone(in)
		a.erase(out, x.By, w, key.At(uint64(i), 1))
		return out
	}
	by := int(x.By)
	dx, dy := below(w[0], 2*by+1)-by, below(w[1], 2*by+1)-by
	sin, cos := math.Sincos((2*rng.Float64(w[0], w[1]) - 1) * x.By * (math.Pi / 180))
	midX, midY := float64(width-1)/2, float64(height-1)/2
	out := make([]float32, 0, len(in))
	for j := range in {
		channel, row, column := j/(height*width), j/width%height, j%width
		var v float32
		switch x.Name {
		case "flip":
			if w[0]>>31 == 1 {
				column = width - 1 - column
			}
			v = at(channel, row, column)
		case "crop":
			v = at(channel, row-dy, column-dx)
		case "rotate":
			fromX := midX + float64(cos*(float64(column)-midX)) + float64(sin*(float64(row)-midY))
			fromY := midY - float64(sin*(float64(column)-midX)) + float64(cos*(float64(row)-midY))
			left, top := math.Floor(fromX), math.Floor(fromY)
			right, down := fromX-left, fromY-top
			for k, weight := range []float64{(1 - right) * (1 - down), right * (1 - down), (1 - right) * down, right * down} {
				v += float32(weight * float64(at(channel, int(top)+k>>1, int(left)+k&1)))
			}
		}
		out = append(out, v)
	}
	return out
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

// The time of a batch of 128 samples as CIFAR-10 has them: of float32 tensors, which are copied, and of images with changes.
func BenchmarkReadImages(b *testing.B) {
	dir := b.TempDir()
	cifar(b, dir, "data_batch_1.bin", 1, 1000, 10)
	flipCrop := []Augment{{Name: "flip"}, {"crop", 4}}
	for _, x := range []struct {
		name string
		list []Augment
	}{{"plain", nil}, {"flip, crop", flipCrop},
		{"flip, crop, rotate, erase", append(flipCrop, Augment{"rotate", 10}, Augment{"erase", 0.25})},
		{"flip, crop, rotate, erase, mixup", append(flipCrop, Augment{"rotate", 10}, Augment{"erase", 0.25}, Augment{"mixup", 0.2})}} {
		ds := openImages(b, Spec{Path: dir, Pictures: PictureOptions{Augment: x.list}, Split: 1})
		b.Run(x.name, func(b *testing.B) { benchmarkRead(b, ds.Train, 128) })
	}
	pixels := make([]float32, 1000*cifarPixels)
	t := &table{rows: 1000, columns: []column{newColumn(Field{"input", shape.F32(3, 32, 32)}, shape.Bytes(pixels))}}
	b.Run("tensors", func(b *testing.B) { benchmarkRead(b, &Part{table: t, count: t.rows, shuffle: true}, 128) })
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
	for j := range n { // whose others are all read again
		if _, err := p.ReadRows(at, n, []Rows{{j, j + 1}}, part); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(shape.View[float32](part[0]), pixels) || !slices.Equal(shape.View[float32](part[1]), shares) {
		t.Error("samples one by one are mixed otherwise")
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
