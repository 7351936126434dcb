package configs

import "testing"

// A flag gives the two characters \t, since it has no quotes to make a tab.
func TestDelimiterAsATab(t *testing.T) {
	const text = "data: {source: csv, path: a.csv}\nmodel: {preset: mlp, hidden: [4]}\n"
	for set, want := range map[string]string{`\t`: "\t", ";": ";"} {
		c, err := Parse("a.yaml", []byte(text), Overlay{Set: []string{"data.delimiter=" + set}})
		if err != nil || c.Data.Delimiter != want {
			t.Errorf("%q: got %+v, %v", set, c, err)
		}
	}
}
