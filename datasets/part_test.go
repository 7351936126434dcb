package datasets

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// numbered is a part of n samples whose input and target are their number.
func numbered(t testing.TB, n int, fraction float64, s Spec) (train, val *Part) {
	t.Helper()
	ids := make([]int32, n)
	values := make([]float32, n)
	for i := range ids {
		ids[i], values[i] = int32(i), float32(i)
	}
	train, val, err := splitRandomly(&table{rows: n, columns: []column{
		newColumn(Field{"input", shape.F32()}, shape.Bytes(values)),
		newColumn(Field{"target", shape.I32()}, shape.Bytes(ids)),
	}}, s, fraction)
	if err != nil {
		t.Fatal(err)
	}
	return train, val
}

func targets(t testing.TB, p *Part, epoch int) []int32 {
	return shape.View[int32](readAll(t, p, epoch)[1])
}

// Reading from any cursor in any batch sizes equals reading the epoch at once.
func TestReadFromAnyCursor(t *testing.T) {
	sources := []*Part{
		open(t, Spec{Source: "digits", Seed: 3}).Train,
		open(t, Spec{Source: "text", Path: BuiltinShakespeare, Text: TextOptions{Context: 2000}}).Train,
	}
	whole := make([][][][]byte, len(sources))
	for i, p := range sources {
		for epoch := range 3 {
			whole[i] = append(whole[i], readAll(t, p, epoch))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(sources)-1).Draw(t, "source")
		p := sources[i]
		c := Cursor{rapid.IntRange(0, 2).Draw(t, "epoch"), rapid.IntRange(0, p.Len()-1).Draw(t, "index")}
		n := rapid.IntRange(1, 80).Draw(t, "n")
		dst := p.Alloc(n)
		got, err := p.Read(c, n, dst)
		if err != nil || got != min(n, p.Len()-c.Index) {
			t.Fatalf("%d samples read of %d at %v: %v", got, n, c, err)
		}
		for f, field := range p.Fields() {
			size := int(field.Meta.Bytes())
			if want := whole[i][c.Epoch][f][c.Index*size : (c.Index+got)*size]; !bytes.Equal(dst[f][:got*size], want) {
				t.Fatalf("field %q at %v differs from the sequential pass", field.Name, c)
			}
		}
	})
}

func TestOrderChanges(t *testing.T) {
	train, _ := numbered(t, 100, 0.8, Spec{Seed: 1})
	other, _ := numbered(t, 100, 0.8, Spec{Seed: 2})
	again, _ := numbered(t, 100, 0.8, Spec{Seed: 1})
	first := targets(t, train, 0)
	if slices.Equal(first, targets(t, train, 1)) {
		t.Error("two epochs have the same order")
	}
	if slices.Equal(slices.Sorted(slices.Values(first)), slices.Sorted(slices.Values(targets(t, other, 0)))) {
		t.Error("two seeds split alike")
	}
	if !slices.Equal(first, targets(t, again, 0)) {
		t.Error("the same seed gives another order")
	}
	kept, none := numbered(t, 50, 1, Spec{KeepOrder: true})
	if none != nil || !slices.IsSorted(targets(t, kept, 7)) {
		t.Error("split 1 without shuffling is not the file's order")
	}
}

func TestReadErrors(t *testing.T) {
	p, _ := numbered(t, 10, 1, Spec{})
	dst := p.Alloc(4)
	cases := []struct {
		name string
		c    Cursor
		n    int
		dst  [][]byte
		want error
	}{
		{"end", Cursor{0, 10}, 4, dst, io.EOF},
		{"beyond", Cursor{0, 11}, 4, dst, ErrSpec},
		{"negative index", Cursor{0, -1}, 4, dst, ErrSpec},
		{"negative epoch", Cursor{-1, 0}, 4, dst, ErrSpec},
		{"no samples", Cursor{}, 0, dst, ErrDst},
		{"too small", Cursor{}, 5, dst, ErrDst},
		{"fields", Cursor{}, 4, dst[:1], ErrDst},
	}
	for _, c := range cases {
		if _, err := p.Read(c.c, c.n, c.dst); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if got := p.Next(Cursor{2, 8}, 2); got != (Cursor{3, 0}) {
		t.Errorf("next after the last sample is %v", got)
	}
	if got := p.Next(Cursor{2, 4}, 4); got != (Cursor{2, 8}) {
		t.Errorf("next is %v", got)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	all := []Augment{{Name: "flip"}, {"crop", 1}, {"rotate", 10}, {"erase", 0.5}, {"mixup", 0.2}}
	images := openImages(t, Spec{Path: photos(t, 64), Pictures: PictureOptions{Augment: all}, Split: 1})
	for name, p := range map[string]*Part{"digits": open(t, Spec{Source: "digits"}).Train, "images": images.Train} {
		dst := p.Alloc(64)
		c := Cursor{}
		if a := testing.AllocsPerRun(50, func() {
			n, err := p.Read(c, 64, dst)
			if err != nil {
				t.Fatal(err)
			}
			c = p.Next(c, n)
		}); a != 0 && !testall.Race {
			t.Errorf("%s: %v allocations a batch", name, a)
		}
	}
}

func BenchmarkReadDigits(b *testing.B) {
	p := open(b, Spec{Source: "digits"}).Train
	benchmarkRead(b, p, 64)
}

func BenchmarkReadMNIST(b *testing.B) {
	p := open(b, Spec{Source: "mnist", Path: BuiltinMNIST}).Train
	benchmarkRead(b, p, 128)
}

func benchmarkRead(b *testing.B, p *Part, n int) {
	dst := p.Alloc(n)
	c := Cursor{}
	b.ReportAllocs()
	for b.Loop() {
		got, err := p.Read(c, n, dst)
		if err != nil {
			b.Fatal(err)
		}
		c = p.Next(c, got)
	}
}

// Elements that are stored narrower than they read are decoded in place.
func TestReadingStoredElementsAllocatesNothing(t *testing.T) {
	for dtype, field := range map[safetensors.DType]shape.Meta{
		safetensors.U8: shape.F32(100), safetensors.F16: shape.F32(100), safetensors.I16: shape.I32(100), safetensors.U16: shape.I32(100),
	} {
		c := storedColumn(Field{"input", field}, make([]byte, 10*100*dtype.Size()), dtype)
		p := &Part{table: &table{rows: 10, columns: []column{c}}, count: 10}
		dst := p.Alloc(10)
		if a := testing.AllocsPerRun(50, func() {
			if _, err := p.Read(Cursor{}, 10, dst); err != nil {
				t.Fatal(err)
			}
		}); a != 0 {
			t.Errorf("%s: %v allocations", dtype, a)
		}
	}
}
