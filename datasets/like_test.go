package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

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
	trained.Scaling.apply(want)
	if !slices.Equal(shape.View[float32](got[0]), want) || !slices.Equal(shape.View[int32](got[1]), []int32{2, 2}) {
		t.Errorf("features %v, want %v; classes %v", shape.View[float32](got[0]), want, shape.View[int32](got[1]))
	}
	for text, says := range map[string]string{
		"a,b,k\n1,2,w\n":   `sample 0 is of class "w", and the model was trained on x, y, z`,
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

func TestScaledTarget(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "a.csv", "a,y\n1,100\n2,200\n3,300\n"), Split: 1, KeepOrder: true,
		ScaleTarget: true, CSV: CSVOptions{Task: TaskRegression}}
	ds := open(t, s)
	got := slices.Clone(shape.View[float32](readAll(t, ds.Train, 0)[1]))
	if got[1] != 0 || got[2] != -got[0] {
		t.Errorf("targets %v", got)
	}
	ds.Info.TargetScaling.Undo(got)
	if !near(got, []float32{100, 200, 300}) {
		t.Errorf("scaled back: %v", got)
	}
	s.Like, s.Path = saved(t, ds.Info), write(t, "b.csv", "a,y\n9,300\n")
	if v := shape.View[float32](readAll(t, open(t, s).Train, 0)[1]); !near(v, []float32{1.2247449}) {
		t.Errorf("other data: %v", v)
	}
}

func TestBlame(t *testing.T) {
	path := write(t, "a.csv", "a,b\n1,x\n2,y\n")
	for want, s := range map[string]Spec{
		"path":      {Path: "nowhere.csv"},
		"label":     {Path: path, CSV: CSVOptions{Labels: []string{"c"}}},
		"ignore":    {Path: path, CSV: CSVOptions{Ignore: []string{"c"}}},
		"task":      {Path: path, CSV: CSVOptions{Task: TaskRegression}},
		"delimiter": {Path: write(t, "b.csv", "a;b\n1;2\n")},
		"split":     {Path: path, Split: 0.1},
	} {
		s.Source = "csv"
		if _, err := Open(context.Background(), s); err == nil || Blame(err) != want {
			t.Errorf("want %s, got %s of %v", want, Blame(err), err)
		}
	}
}
