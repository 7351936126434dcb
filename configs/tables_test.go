package configs

import "testing"

// TestTables checks the rules that the readers of the tables rely on.
func TestTables(t *testing.T) {
	seen := map[*section]bool{}
	var check func(s *section, at string)
	check = func(s *section, at string) {
		if seen[s] {
			return
		}
		seen[s] = true
		if s.shorthand != "" && s.shorthand != s.all()[0].name {
			t.Errorf("%s: the shorthand %q is not the first key", at, s.shorthand)
		}
		for _, choice := range append(s.choices(), "") {
			keys, _ := s.active(choice)
			names := map[string]bool{}
			for _, k := range keys {
				if names[k.name] {
					t.Errorf("%s: variant %q has %q twice", at, choice, k.name)
				}
				names[k.name] = true
			}
		}
		for _, k := range s.all() {
			path := join(at, k.name)
			sub, nested := k.kind.(*section)
			if nested {
				check(sub, path)
			} else if k.doc == "" {
				t.Errorf("%s has no documentation", path)
			}
			if k.required && k.def != "" {
				t.Errorf("%s is required and has a default", path)
			}
		}
	}
	check(rootSection, "")
	check(sweepFile, "")
	check(layerSection, "model.layers[]")
}
