package serve

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

// A list that does not begin with a list is a flat one, so its elements are numbers.
func TestFlatLists(t *testing.T) {
	for body, want := range map[string]string{
		`[null, 1]`:            "inputs[0]: this is null: send a number",
		`[true]`:               "inputs[0]: this is true or false: send a number",
		`["1", 2]`:             "inputs[0]: this is a text: send a number",
		`[1, 2, 3]`:            "inputs: the list has 3 of its 4 elements: send all",
		`[1, 2, 3, [4]]`:       "inputs[3]: this is a list: send a number",
		`[[1, 2], [null]]`:     "inputs[1][0]: this is null: send a number",
		`[[1, 2], null]`:       "inputs[1]: this is null: send a list",
		`[[1, 2], [3, 4]]`:     "",
		` [ 1 , 2, 3, 4.5e1 ]`: "",
	} {
		x := &scanner{b: []byte(body), field: "inputs"}
		err := x.numbers(shape.Of(2, 2), func([]byte) error { return nil })
		text := ""
		if p, ok := err.(*problem); ok {
			text = p.Where + ": " + p.Text
		}
		if text != want || err != nil && !strings.Contains(text, ":") {
			t.Errorf("%s: %q, want %q", body, text, want)
		}
	}
}
