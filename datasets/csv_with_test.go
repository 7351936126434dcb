package datasets

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

// Each sample of a part has the texts of its row, in a table of numbers, in one with kinds, where rows lack a
// label, beside memory, and in a file to predict from.
func TestTextsBesideSamples(t *testing.T) {
	for name, c := range map[string]struct {
		word  string
		block int64
		lacks bool
	}{"numbers": {}, "kinds": {word: "red"}, "rows without a label": {word: "red", lacks: true}, "beside memory": {word: "red", block: 160}} {
		rows := []string{"id,a,k,x"}
		for i := range 60 {
			label := "yes"
			if i%2 == 0 {
				label = "no"
			}
			if c.lacks && i%5 == 3 {
				label = ""
			}
			word := "7"
			if c.word != "" && i%3 == 0 {
				word = c.word + fmt.Sprint(i%6)
			}
			rows = append(rows, fmt.Sprintf("%d,%d,%s,%s", 1000+i, i, label, word))
		}
		path := write(t, "x.csv", strings.Join(rows, "\n"))
		s := Spec{Source: "csv", Path: path, Seed: 3, Block: c.block, With: []string{"id", "-2"}, CSV: CSVOptions{Labels: []string{"k"}, Ignore: []string{"id"}}}
		ds := open(t, s)
		inputs, err := openOne(t.Context(), s, &ds.Info, path)
		if err != nil {
			t.Fatal(err)
		}
		for part, p := range map[string]*Part{"train": ds.Train, "val": ds.Val, "a file": inputs, "train in order": ds.Train.InOrder()} {
			fields := readAll(t, p, 0)
			features := shape.View[float32](fields[0])
			for i := range p.Len() {
				a := int(features[i*len(features)/p.Len()])
				label := []string{"no", "yes"}[a%2]
				if part == "a file" && c.lacks && a%5 == 3 {
					label = ""
				}
				if got, want := fmt.Sprint(p.With(i)), fmt.Sprintf("[%d %s]", 1000+a, label); got != want {
					t.Errorf("%s, %s: sample %d has %s, want %s", name, part, i, got, want)
				}
			}
		}
		if s.With = nil; open(t, s).Val.With(0) != nil {
			t.Errorf("%s: texts that were not asked for", name)
		}
	}
}

// Columns that cannot stand beside samples are refused.
func TestTextsThatAreRefused(t *testing.T) {
	s := Spec{Source: "csv", Path: write(t, "x.csv", "customer,a,k\n"+strings.Repeat("some long name,1,x\nanother,2,y\n", 9))}
	for with, says := range map[string]string{
		"custmer":    `there is no column "custmer" to write beside the answers among customer, a, k; did you mean "customer"?`,
		"a,1":        `the column "1" is to be written beside the answers twice`,
		"customer,7": `there is no column "7"`,
	} {
		s.With = strings.Split(with, ",")
		if _, err := Open(t.Context(), s); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", with, err, says)
		}
	}
	s.With, s.Memory = []string{"customer"}, 200
	if _, err := Open(t.Context(), s); !errors.Is(err, ErrMemory) {
		t.Errorf("more texts than memory: %v", err)
	}
	if _, err := Open(t.Context(), Spec{Source: "digits", With: []string{"a"}}); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "no rows of a table") {
		t.Errorf("digits: %v", err)
	}
}
