package host

import "testing"

// Two devices share the memory that one would have.
func TestDefaultBudget(t *testing.T) {
	one, err := DefaultBudget(1)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := DefaultBudget(2); one < 1<<20 || two > one*3/4 {
		t.Errorf("budgets %d for one device and %d for each of two", one, two)
	}
}
