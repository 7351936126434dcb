package main

import "testing"

// The generated numbers move towards those of the data.
func TestPlay(t *testing.T) {
	numbers, err := play(t.Context(), "", t.TempDir(), 100)
	var mean float32
	for _, x := range numbers {
		mean += x / float32(len(numbers))
	}
	if err != nil || mean < 0.5 || mean > 5 {
		t.Errorf("mean %v, %v", mean, err)
	}
}
