package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kept is an Info as a checkpoint keeps it.
func kept(t *testing.T, in Info) *Info {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &Info{}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// tableOf is a table below a header, with empty fields in its second column.
func tableOf(header string, row func(i int, second string) []string) string {
	var b strings.Builder
	fmt.Fprintln(&b, header)
	for i := range 100 {
		second := fmt.Sprint(i % 7)
		if i%9 == 0 {
			second = ""
		}
		fmt.Fprintln(&b, strings.Join(row(i, second), ","))
	}
	return b.String()
}

// Columns whose names are numbers are found by name in the training file, in a file in another
// order, and in one with other columns. The last two checkpoints are those of earlier versions.
func TestNamesThatAreNumbers(t *testing.T) {
	row := func(i int, second string) []string {
		return []string{fmt.Sprint(i % 5), second, fmt.Sprint(10 + i%3), fmt.Sprint(i % 2)}
	}
	for _, header := range []string{"1,2,3,y", "-1,0,1,y", "0,7,-3,y"} {
		s := Spec{Source: "csv", Path: write(t, "x.csv", tableOf(header, row)), CSV: CSVOptions{Labels: []string{"y"}}}
		ds := open(t, s)
		turned := strings.Split(header, ",")
		slices.Reverse(turned)
		other := tableOf(strings.Join(turned, ",")+",more", func(i int, second string) []string {
			fields := row(i, second)
			slices.Reverse(fields)
			return append(fields, "9")
		})
		for _, early := range []bool{false, true} {
			s.Like, s.GoesOn = kept(t, ds.Info), true
			if early {
				s.Like.Columns.Header = false
			}
			for _, path := range []string{s.Path, write(t, "y.csv", other)} {
				like := s
				like.Path = path
				again := open(t, like)
				if !slices.Equal(rowsOfPart(t, again.Train), rowsOfPart(t, ds.Train)) {
					t.Errorf("header %s, early %v, %s: other samples", header, early, path)
				}
				if path == s.Path && again.Info.Fingerprint != ds.Info.Fingerprint {
					t.Errorf("header %s: another fingerprint", header)
				}
			}
		}
		first := strings.Join(strings.Split(header, ",")[:3], ",")
		parts, err := OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", "label,"+first+"\n0,1,2,3\n"))
		if err != nil || parts[0].Len() != 1 {
			t.Errorf("header %s: %v", header, err)
		}
		s.Like = kept(t, ds.Info)
		if parts, err = OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", first+"\n1,2,3\n")); err != nil || parts[0].Len() != 1 {
			t.Errorf("header %s: the header is taken as a row: %v", header, err)
		}
		if _, err = OpenInputs(t.Context(), s, s.Like, write(t, "new.csv", "8,8,8,8,8\n5,6,7,8,9\n")); !errors.Is(err, ErrFormat) {
			t.Errorf("header %s: five columns without names: %v", header, err)
		}
	}
}
