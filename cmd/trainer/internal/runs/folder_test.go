package runs

import "testing"

func TestNumber(t *testing.T) {
	for dir, want := range map[string]int{
		"digits": 1, "digits-2": 2, "digits-10": 10,
		"digits-1": 0, "digits-02": 0, "digits-x": 0, "digits-": 0, "digits2": 0, "digits--2": 0, "digit": 0, "digits-2-2": 0,
	} {
		if n, ours := number(dir, "digits"); ours != (want > 0) || ours && n != want {
			t.Errorf("%s: %d, %v, want %d", dir, n, ours, want)
		}
	}
}
