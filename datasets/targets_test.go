package datasets

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// The entropy is that of the shares of classes in the part, and of several labels the mean of theirs.
func TestTargetEntropy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte("a,kind\n1,x\n2,x\n3,x\n4,y\n5,x\n6,x\n7,x\n8,y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ds, err := Open(t.Context(), Spec{Source: "csv", Path: path, Split: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := -(0.75*math.Log(0.75) + 0.25*math.Log(0.25))
	if got, err := ds.Train.TargetEntropy(t.Context(), &ds.Info); err != nil || math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got := entropyOf(4, 4, 0); got != 0 {
		t.Errorf("of one class: %v", got)
	}
}
