package main

import (
	"slices"
	"testing"
)

// The new head learns, and the body stays as it was.
func TestFinetune(t *testing.T) {
	dir := t.TempDir()
	digits, _, err := learn(t.Context(), "digits.yaml", dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := parity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	odd, accuracy, err := learn(t.Context(), "parity.yaml", dir, data, digits)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range shared {
		if !slices.Equal(digits[i].Float32s(), odd[i].Float32s()) {
			t.Errorf("%s has changed", name)
		}
	}
	if accuracy < 0.85 {
		t.Errorf("accuracy %v", accuracy)
	}
}
