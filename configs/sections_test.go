package configs

import "testing"

// TestDataByItsSource reads the short form as the long one.
func TestDataByItsSource(t *testing.T) {
	long, err := Parse("a.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := Parse("a.yaml", []byte("data: digits\nmodel: {preset: mlp}\n"), Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	a, errA := long.Identity()
	b, errB := short.Identity()
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%v, %v, or another config:\n%s\n%s", errA, errB, a, b)
	}
}
