package main

import "testing"

// The generated numbers move towards those of the data.
func TestPlay(t *testing.T) {
	mean, err := play(t.Context(), t.TempDir(), 100)
	if err != nil || mean < 0.5 || mean > 5 {
		t.Errorf("mean %v, %v", mean, err)
	}
}
