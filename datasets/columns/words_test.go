package columns

import "testing"

// A boolean or a number is found however it is spelt, and a key of many digits is no other one.
func TestWords(t *testing.T) {
	w := NewWords([]string{"1.0", "1", "TRUE", "no", "9007199254740992", "1e6", "-0.0", "red"})
	for word, want := range map[string]int32{
		"1.0": 0, "1": 1, "1.00": 0, "1e0": 0, "true": 2, "yes": 2, "False": 3, "9007199254740992": 4, "1000000": 5, "0": 6, "red": 7,
		"9007199254740993": -1, "Red": -1, "": -1, "2": -1, "1e999": -1, "01": 0,
	} {
		got, known := w.FindValue([]byte(word))
		if known != (want >= 0) || known && got != want {
			t.Errorf("%q: %d %v, want %d", word, got, known, want)
		}
	}
	for text, want := range map[string]bool{
		"1": true, "0": true, "-0.5": true, "1e3": true, "True": true, "FALSE": true, ".5": true,
		"": false, "01": false, "-007": false, "yes": false, "nan": false, "1a": false,
	} {
		if IsValue([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// A number is missing whatever its spelling, and a boolean column takes numbers that are 0 or 1.
func TestNumbersByValue(t *testing.T) {
	words := []string{"-999", "none"}
	for field, want := range map[string]bool{"-999": true, "-999.0": true, "-9.99e2": true, "none": true, "None": false, "-99": false, "-0999": false, "999": false} {
		if IsMissing(words, []byte(field)) != want {
			t.Errorf("%q: %v", field, !want)
		}
	}
	_, fitted, _, err := found(t, column(40, func(i int) string { return []string{"yes", "no"}[i%2] }), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]int32{"1.0": 1, "0": 0, "0.00": 0, "true": 1, "No": 0} {
		if got, err := fitted.Cell(0, []byte(field)); err != nil || got != want {
			t.Errorf("%q: %d, %v", field, got, err)
		}
	}
}
