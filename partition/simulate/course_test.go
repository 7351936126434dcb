package simulate

import "testing"

// A launch with late inputs waits for each input where it reads it; the waits overlap with
// its work before.
func TestCourse(t *testing.T) {
	for name, c := range map[string]struct {
		inputs             []reading
		late               bool
		start, end, waited float64
	}{
		"nothing to wait for":        {nil, true, 5, 15, 0},
		"all before the start":       {[]reading{{0, 3}, {0.5, 8}}, false, 8, 18, 0},
		"hidden":                     {[]reading{{0, 3}, {0.5, 8}}, true, 5, 15, 0},
		"half hidden":                {[]reading{{0.5, 12}}, true, 5, 17, 2},
		"the second wait is covered": {[]reading{{0.8, 15}, {0.2, 10}}, true, 5, 18, 3},
		"the second wait is longer":  {[]reading{{0.8, 20}, {0.2, 10}}, true, 5, 22, 7},
		"read at once":               {[]reading{{0, 9}}, true, 5, 19, 4},
	} {
		start, end, waited := course(5, 10, c.inputs, c.late)
		if start != c.start || end != c.end || waited != c.waited {
			t.Errorf("%s: from %v to %v, waited %v; want %v %v %v", name, start, end, waited, c.start, c.end, c.waited)
		}
	}
}
