package datasets

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/shape"
)

// Every epoch has every sample once; the parts are disjoint and complete; the
// split depends on the seed alone, the order on seed and epoch.
func TestSplitAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(10, 500).Draw(t, "n")
		s := Spec{Seed: rapid.Uint64().Draw(t, "seed")}
		fraction := rapid.Float64Range(0.2, 0.8).Draw(t, "fraction")
		epoch := rapid.IntRange(0, 1000).Draw(t, "epoch")
		ids := make([]int32, n)
		tab := &table{rows: n, columns: []column{newColumn(Field{"target", shape.I32()}, shape.Bytes(ids))}}
		for i := range ids {
			ids[i] = int32(i)
		}
		train, val, err := splitRandomly(tab, s, fraction)
		if err != nil {
			t.Fatal(err)
		}
		pass := func(p *Part, epoch int) []int32 {
			dst := p.Alloc(p.Len())
			if _, err := p.Read(Cursor{Epoch: epoch}, p.Len(), dst); err != nil {
				t.Fatal(err)
			}
			return shape.View[int32](dst[0])
		}
		all := slices.Sorted(slices.Values(append(slices.Clone(pass(train, epoch)), pass(val, epoch)...)))
		for i, v := range all {
			if int(v) != i || len(all) != n {
				t.Fatalf("%d samples of %d, number %d at %d", len(all), n, v, i)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(pass(train, epoch+1))), slices.Sorted(slices.Values(pass(train, epoch)))) {
			t.Fatal("another epoch has other samples")
		}
		if !slices.Equal(pass(val, epoch), pass(val, epoch+1)) {
			t.Fatal("the validation part was shuffled")
		}
	})
}

func TestSplitRefusesEmptyPart(t *testing.T) {
	for _, f := range []float64{0.01, 0.2} {
		tab := &table{rows: 4}
		if _, _, err := splitRandomly(tab, Spec{}, f); !errors.Is(err, ErrTooFew) {
			t.Errorf("split %v: %v", f, err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	seen := map[string]Spec{}
	for _, s := range []Spec{
		{Source: "digits"}, {Source: "digits", Seed: 1}, {Source: "digits", Split: 0.5}, {Source: "digits", KeepOrder: true},
		{Source: "digits", Images: ImageOptions{Mean: 0.5, Std: 0.5}},
		{Source: "text", Path: BuiltinShakespeare, Text: TextOptions{Context: 64}},
		{Source: "text", Path: BuiltinShakespeare, Text: TextOptions{Context: 65}},
	} {
		a, b := open(t, s).Info.Fingerprint, open(t, s).Info.Fingerprint
		if other, dup := seen[a]; dup || a != b || len(a) != 64 {
			t.Errorf("%+v: fingerprints %s and %s, as %+v", s, a, b, other)
		}
		seen[a] = s
	}
}
