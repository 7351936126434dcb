package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/columns"
)

// rows reads the rows of a table into features.
type rows struct {
	columns *columns.Fitted
	index   map[string]int // of the columns, by name
	fields  [][]byte       // of one row; nil: it lacks that
	given   []bool         // of one row
	unknown []string       // the first names in one row that are not those of columns
}

func newRows(f *columns.Fitted) *rows {
	r := &rows{columns: f, index: make(map[string]int, len(f.Columns)), fields: make([][]byte, len(f.Columns)), given: make([]bool, len(f.Columns))}
	for i := range f.Columns {
		r.index[f.Columns[i].Name] = i
	}
	return r
}

// row reads a sample of a table: an object with a value for each column, or a list of the
// values in the order of the columns.
func (x *samples) row() error {
	if x.rows == nil {
		x.rows = newRows(x.info.Row())
	}
	r := x.rows
	clear(r.fields)
	clear(r.given)
	r.unknown = r.unknown[:0]
	read := x.object
	if x.next() == '[' {
		read = x.values
	}
	if err := read(r); err != nil {
		return err
	}
	if len(r.unknown) > 0 {
		if err := r.columns.Misspelt(r.unknown, func(i int) bool { return r.given[i] }); err != nil {
			return bad(x.where(), "%v", err)
		}
	}
	from := len(x.floats)
	x.floats = append(x.floats, make([]float32, r.columns.Features())...)
	cells := make([]int32, len(r.fields))
	var wrong faults
	for i, field := range r.fields {
		c := &r.columns.Columns[i]
		switch {
		case field == nil && !r.given[i] && !c.Optional:
			wrong.missing = append(wrong.missing, c.Name)
		case len(wrong.names) == mostWrong:
			wrong.unseen = true
		case field == nil && !c.Optional:
			wrong.add(c.Name, fmt.Sprintf("this is null: send a %s", c.Kind))
		default:
			cell, err := r.columns.CellOfRow(i, field)
			if err != nil {
				wrong.add(c.Name, err.Error())
			}
			cells[i] = cell
		}
	}
	if wrong.some() {
		x.key = wrong.key()
		return bad(x.where(), "%s", wrong.text(r.required()))
	}
	r.columns.Expand(cells, x.floats[from:])
	return nil
}

// mostWrong is the number of wrong values in a row that are looked at: each is worded, and a row may have 100,000.
const mostWrong = 64

// faults are what is wrong in one row.
type faults struct {
	missing     []string // columns without a value
	names, says []string // of the first columns with a wrong value
	unseen      bool     // values behind these were not looked at
}

func (f *faults) add(name, text string) {
	f.names, f.says = append(f.names, name), append(f.says, text)
}

func (f *faults) some() bool { return f.missing != nil || f.names != nil }

// key is the column whose value the row's place names; "" where the row lacks some.
func (f *faults) key() string {
	if f.missing != nil {
		return ""
	}
	return f.names[0]
}

// text tells of columns without a value together, and of each other fault beside them. required are the columns that a row must
// have.
func (f *faults) text(required []string) string {
	const most = 4
	var list []string
	for i := range f.missing[:min(mostListed, len(f.missing))] {
		f.missing[i] = strconv.Quote(short(f.missing[i]))
	}
	switch len(f.missing) {
	case 0:
	case 1:
		list = append(list, fmt.Sprintf("%s is missing: send each of %s", f.missing[0], listed(required)))
	default:
		list = append(list, fmt.Sprintf("%s are missing: send each of %s", listed(f.missing), listed(required)))
	}
	for i, text := range f.says {
		if len(list) == most {
			list = append(list, fmt.Sprintf("and %s%d more", map[bool]string{true: "at least "}[f.unseen], len(f.says)-i))
			break
		}
		if len(list) > 0 {
			text = fmt.Sprintf("%q: %s", short(f.names[i]), text)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// required counts the columns that a row must have.
func required(f *columns.Fitted) (n int) {
	for i := range f.Columns {
		if !f.Columns[i].Optional {
			n++
		}
	}
	return n
}

// required are the columns that a row must have.
func (r *rows) required() (names []string) {
	for i := range r.columns.Columns {
		if c := &r.columns.Columns[i]; !c.Optional {
			names = append(names, c.Name)
		}
	}
	return names
}

// mostUnknown is the number of unknown names in a row that are looked at.
const mostUnknown = 64

// object reads the fields of an object. Names that are not those of columns do not count, but
// one that is near to a column without a value is refused.
func (x *samples) object(r *rows) error {
	for x.at++; x.next() != '}'; {
		var name string
		if err := json.Unmarshal(x.token(), &name); err != nil {
			return bad(x.where(), "a name cannot be read: %v", err)
		}
		i, known := r.index[name]
		if !known {
			if len(r.unknown) < mostUnknown {
				r.unknown = append(r.unknown, name)
			}
			x.skip()
			continue
		}
		if r.given[i] {
			return bad(x.where(), "%q is given twice: send it once", short(name))
		}
		if err := x.value(r, i); err != nil {
			return err
		}
	}
	x.at++
	return nil
}

// values reads the fields of a list.
func (x *samples) values(r *rows) error {
	n := 0
	err := x.list(func(i int) error {
		if n = i + 1; n > len(r.fields) {
			return bad(x.where(), "the list is too long: send %d elements", len(r.fields))
		}
		return x.value(r, i)
	})
	if err == nil && n < len(r.fields) {
		err = bad(x.where(), "the list has %d of its %d elements: send all, and null for a missing value", n, len(r.fields))
	}
	return err
}

// value reads the field of column i. null is a missing value.
func (x *samples) value(r *rows, i int) error {
	r.given[i] = true
	switch c := x.next(); c {
	case '[', '{':
		x.key = r.columns.Columns[i].Name
		return bad(x.where(), "this is %s: send a text, a number, true, false or null", x.what())
	case '"':
		var text string
		if err := json.Unmarshal(x.token(), &text); err != nil {
			return bad(x.where(), "the text cannot be read: %v", err)
		}
		r.fields[i] = []byte(text)
	case 'n':
		x.token()
	default:
		r.fields[i] = slices.Clone(r.columns.Spelt(i, x.token()))
	}
	return nil
}

// rowText describes the columns of a row, a line for each; "" for other data.
func rowText(f *columns.Fitted) string {
	if f == nil {
		return ""
	}
	const most = 40
	lines := f.Expects()
	text := "  Its columns; null is a missing value, and others do not count:\n"
	for _, line := range lines[:min(most, len(lines))] {
		text += "    " + line + "\n"
	}
	if more := len(lines) - most; more > 0 {
		text += fmt.Sprintf("    and %d more\n", more)
	}
	return text
}
