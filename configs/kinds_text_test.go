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

// A list of one path is that path.
func TestListOfOnePath(t *testing.T) {
	for _, path := range []string{"a.txt", "[a.txt]"} {
		c := parse(t, "data: {source: text, path: "+path+"}\nmodel: {preset: gpt}\n", Overlay{})
		if c.Data.Path != "a.txt" || c.Data.MorePaths != nil {
			t.Errorf("path: %s gives %q and %#v", path, c.Data.Path, c.Data.MorePaths)
		}
		roundTrip(t, c)
	}
}
