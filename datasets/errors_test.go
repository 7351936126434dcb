package datasets

import (
	"context"
	"testing"
)

func TestBlame(t *testing.T) {
	path := write(t, "a.csv", "a,b\n1,x\n2,y\n")
	for want, s := range map[string]Spec{
		"path":      {Path: "nowhere.csv"},
		"label":     {Path: path, CSV: CSVOptions{Labels: []string{"c"}}},
		"ignore":    {Path: path, CSV: CSVOptions{Ignore: []string{"c"}}},
		"task":      {Path: path, CSV: CSVOptions{Task: TaskRegression}},
		"delimiter": {Path: write(t, "b.csv", "a;b\n1;2\n")},
		"split":     {Path: path, Split: 0.1},
	} {
		s.Source = "csv"
		if _, err := Open(context.Background(), s); err == nil || Blame(err) != want {
			t.Errorf("want %s, got %s of %v", want, Blame(err), err)
		}
	}
}
