package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// saved is an Info as it comes back from a checkpoint.
func saved(t testing.TB, info Info) *Info {
	t.Helper()
	var out Info
	b, err := json.Marshal(info)
	if err = errors.Join(err, json.Unmarshal(b, &out)); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestLikeTheSameData(t *testing.T) {
	for _, s := range []Spec{
		{Source: "digits", Seed: 3},
		{Source: "tensors", Path: "testdata", Split: 0.5},
		{Source: "csv", Path: write(t, "a.csv", "a,b,k\n1,2,x\n3,4,y\n5,9,x\n7,8,y\n5,5,x\n"), CSV: CSVOptions{Standardize: true}},
		{Source: "text", Path: write(t, "a.txt", strings.Repeat("so it goes; ", 20)), Text: TextOptions{Context: 5}},
	} {
		want := open(t, s)
		s.Like = saved(t, want.Info)
		got := open(t, s)
		if got.Info.Fingerprint != want.Info.Fingerprint || got.Val.Len() != want.Val.Len() {
			t.Errorf("%s: another fingerprint, or %d samples in place of %d", s.Source, got.Val.Len(), want.Val.Len())
		}
		for i, b := range readAll(t, got.Val, 0) {
			if !slices.Equal(b, readAll(t, want.Val, 0)[i]) {
				t.Errorf("%s: field %d is another", s.Source, i)
			}
		}
	}
}

func TestLikeOtherData(t *testing.T) {
	table := write(t, "a.csv", "a,b,k\n1,2,x\n3,4,y\n5,9,z\n7,8,y\n5,5,x\n")
	o := CSVOptions{Standardize: true}
	trained := open(t, Spec{Source: "csv", Path: table, CSV: o}).Info
	s := Spec{Source: "csv", Path: write(t, "b.csv", "k,b,more,a\nz,2,0,1\nz,4,0,3\n"), Like: saved(t, trained), CSV: o}
	s.CSV.Labels = []string{"k"}
	ds := open(t, s)
	if ds.Val != nil || ds.Train.Len() != 2 || ds.Info.Classes != 3 || ds.Info.Fingerprint == trained.Fingerprint {
		t.Errorf("%+v", ds)
	}
	s.KeepOrder = true
	got := readAll(t, open(t, s).Train, 0)
	want := []float32{1, 2, 3, 4}
	if err := trained.Scaling.apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shape.View[float32](got[0]), want) || !slices.Equal(shape.View[int32](got[1]), []int32{2, 2}) {
		t.Errorf("features %v, want %v; classes %v", shape.View[float32](got[0]), want, shape.View[int32](got[1]))
	}
	for text, says := range map[string]string{
		"a,b,k\n1,2,w\n":   `c.csv:2:5 (column "k"): "w" is no class of the model, which was trained on x, y, z: correct it, or take the row out`,
		"a,c,k\n1,2,x\n":   `lacks the column "b"`,
		"a,b,c\n1,2,3.5\n": `there is no label column "k"`,
	} {
		s.Path = write(t, "c.csv", text)
		if _, err := Open(context.Background(), s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	info := open(t, Spec{Source: "tensors", Path: "testdata"}).Info
	info.Classes = 2
	if _, err := Open(context.Background(), Spec{Source: "tensors", Path: "testdata", Like: &info}); !errors.Is(err, ErrFormat) {
		t.Errorf("more classes: %v", err)
	}
	info.Inputs = []Field{{"input", shape.F32(7)}}
	if _, err := Open(context.Background(), Spec{Source: "tensors", Path: "testdata", Like: &info}); !errors.Is(err, ErrFormat) {
		t.Errorf("another shape: %v", err)
	}
}

// openOne is OpenInputs where all samples are of one shape.
func openOne(ctx context.Context, s Spec, info *Info, path string) (*Part, error) {
	parts, err := OpenInputs(ctx, s, info, path)
	if err != nil {
		return nil, err
	}
	if len(parts) != 1 {
		return nil, fmt.Errorf("%d parts", len(parts))
	}
	return parts[0], nil
}
