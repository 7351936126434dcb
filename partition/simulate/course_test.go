package simulate

import (
	"slices"
	"testing"
)

// A launch with late inputs waits for each input where it reads it; the waits overlap with
// its work before.
func TestCourse(t *testing.T) {
	for name, c := range map[string]struct {
		inputs     []reading
		late       bool
		start, end float64
		waits      []Wait
	}{
		"nothing to wait for":        {nil, true, 5, 15, nil},
		"all before the start":       {[]reading{{0, 3}, {0.5, 8}}, false, 8, 18, nil},
		"hidden":                     {[]reading{{0, 3}, {0.5, 8}}, true, 5, 15, nil},
		"half hidden":                {[]reading{{0.5, 12}}, true, 5, 17, []Wait{{10, 12}}},
		"the second wait is covered": {[]reading{{0.8, 15}, {0.2, 10}}, true, 5, 18, []Wait{{7, 10}}},
		"the second wait is longer":  {[]reading{{0.8, 20}, {0.2, 10}}, true, 5, 22, []Wait{{7, 10}, {16, 20}}},
		"read at once":               {[]reading{{0, 9}}, true, 5, 19, []Wait{{5, 9}}},
	} {
		start, end, list := course(5, 10, c.inputs, c.late, turn{}, nil)
		if start != c.start || end != c.end || !slices.Equal(list, c.waits) {
			t.Errorf("%s: from %v to %v, waits %v; want %v %v %v", name, start, end, list, c.start, c.end, c.waits)
		}
	}
}
