package datasets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func open(t testing.TB, s Spec) *Dataset {
	t.Helper()
	ds, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// readAll is an epoch of a part, read at once.
func readAll(t testing.TB, p *Part, epoch int) [][]byte {
	t.Helper()
	dst := p.Alloc(p.Len())
	if n, err := p.Read(Cursor{Epoch: epoch}, p.Len(), dst); err != nil || n != p.Len() {
		t.Fatalf("read %d of %d: %v", n, p.Len(), err)
	}
	return dst
}

func countClasses(t testing.TB, ds *Dataset) []int {
	count := make([]int, ds.Info.Classes)
	for _, p := range []*Part{ds.Train, ds.Val} {
		for _, v := range shape.View[int32](readAll(t, p, 0)[1]) {
			count[v]++
		}
	}
	return count
}

func TestDigits(t *testing.T) {
	ds := open(t, Spec{Source: "digits", Seed: 1})
	if ds.Train.Len() != 1437 || ds.Val.Len() != 360 {
		t.Errorf("%d and %d samples, want 1437 and 360", ds.Train.Len(), ds.Val.Len())
	}
	if got, want := countClasses(t, ds), []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}; !slices.Equal(got, want) {
		t.Errorf("samples of each class %v, want %v", got, want)
	}
	if in := ds.Info.Inputs[0].Meta; !in.Equal(shape.F32(1, 8, 8)) {
		t.Errorf("input %v", in)
	}
	pixels := shape.View[float32](readAll(t, ds.Train, 0)[0])
	if lo, hi := slices.Min(pixels), slices.Max(pixels); lo != 0 || hi != 1 {
		t.Errorf("pixels from %v to %v", lo, hi)
	}
}

func TestBuiltinMNIST(t *testing.T) {
	ds := open(t, Spec{Source: "mnist", Path: BuiltinMNIST})
	if ds.Train.Len() != 8000 || ds.Val.Len() != 2000 || !ds.Info.Inputs[0].Meta.Equal(shape.F32(1, 28, 28)) {
		t.Errorf("%d and %d samples of %v", ds.Train.Len(), ds.Val.Len(), ds.Info.Inputs[0].Meta)
	}
	if got, want := countClasses(t, ds), []int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}; !slices.Equal(got, want) {
		t.Errorf("samples of each class %v, want %v", got, want)
	}
}

func TestBuiltinShakespeare(t *testing.T) {
	ds := open(t, Spec{Source: "text", Path: BuiltinShakespeare, Text: TextOptions{Context: 64}, KeepOrder: true})
	if ds.Info.Classes != 65 || ds.Info.Tokens != 65 || ds.Info.Vocab.Len() != 65 {
		t.Errorf("%d characters", ds.Info.Vocab.Len())
	}
	if ds.Train.Len() != (1003854-1)/64 || ds.Val.Len() != (111540-1)/64 {
		t.Errorf("%d and %d windows", ds.Train.Len(), ds.Val.Len())
	}
	dst := ds.Train.Alloc(1)
	if _, err := ds.Train.Read(Cursor{}, 1, dst); err != nil {
		t.Fatal(err)
	}
	in, target := ds.Info.Vocab.Decode(shape.View[int32](dst[0])), ds.Info.Vocab.Decode(shape.View[int32](dst[1]))
	const begin = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nS"
	if in != begin[:64] || target != begin[1:65] {
		t.Errorf("first window %q, target %q", in, target)
	}
}

// TestPathErrors wants every message about a path to say what to give instead.
func TestPathErrors(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text := TextOptions{Context: 8}
	for _, c := range []struct {
		spec Spec
		want error
		says []string
	}{
		{Spec{Source: "text", Path: "builtin:tolstoy", Text: text}, ErrSpec, []string{BuiltinShakespeare, BuiltinMNIST, "builtin:tolstoy"}},
		{Spec{Source: "mnist", Path: BuiltinShakespeare}, ErrSpec, []string{BuiltinShakespeare, BuiltinMNIST}},
		{Spec{Source: "csv", Path: "builtin:digits"}, ErrSpec, []string{"digits needs no path"}},
		{Spec{Source: "csv"}, ErrSpec, []string{"needs a path", wd}},
		{Spec{Source: "csv", Path: "nowhere.csv"}, fs.ErrNotExist, []string{"nowhere.csv", wd}},
		{Spec{Source: "text", Path: "nowhere.txt", Text: text}, fs.ErrNotExist, []string{"nowhere.txt", wd, BuiltinShakespeare}},
		{Spec{Source: "tensors", Path: "/nowhere.npz"}, fs.ErrNotExist, []string{"/nowhere.npz", "existing"}},
	} {
		_, err := Open(t.Context(), c.spec)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.spec, err, c.want)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v does not say %q", c.spec, err, s)
			}
		}
	}
}
