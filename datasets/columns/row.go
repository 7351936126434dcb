package columns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Row turns the fields of a row, by the index of their column, into features. A nil
// field is missing.
func (f *Fitted) Row(fields [][]byte, dst []float32) error {
	cells := make([]int32, len(f.Columns))
	for i := range cells {
		var err error
		if cells[i], err = f.CellOfRow(i, fields[i]); err != nil {
			return fmt.Errorf("column %q: %w", f.Columns[i].Name, err)
		}
	}
	f.Expand(cells, dst)
	return nil
}

// CellOfRow is Cell for a row that is sent to a model: the error advises its sender, who changes
// neither the data nor the training.
func (f *Fitted) CellOfRow(i int, field []byte) (int32, error) {
	return f.cellFor(i, field, "send ", "null")
}

// CellOfFile is Cell for a field of a file that a model reads: the error names no option of the
// training, which is over.
func (f *Fitted) CellOfFile(i int, field []byte) (int32, error) {
	return f.cellFor(i, field, "write ", "nothing")
}

// cellFor is Cell with an error that says what to send or write, and how a missing value is written.
func (f *Fitted) cellFor(i int, field []byte, verb, missing string) (int32, error) {
	cell, err := f.Cell(i, field)
	wrong, ok := errors.AsType[*unfit](err)
	if !ok {
		return cell, err
	}
	c := &f.Columns[i]
	if f.Lacks(field) {
		return cell, errors.New("the value is missing, and no row that the model was trained on lacks it: " + verb + "one")
	}
	advice := verb + c.example()
	if c.Optional {
		advice += ", or " + missing + " if it is missing"
	}
	return cell, errors.New(wrong.what + ": " + advice)
}

// example is a value of a column that not every word can be, for advice.
func (c *Column) example() string {
	switch c.Kind {
	case Date:
		return "a date such as 2024-02-29"
	case Boolean:
		return "yes or no, or true or false"
	}
	return "a finite number"
}

// RowOf is Row for values by the names of their columns: texts, numbers, booleans, times, and
// nil for a missing value. Values of other names do not count, but one that is near to the name
// of a column without a value is an error.
func (f *Fitted) RowOf(values map[string]any, dst []float32) error {
	fields := make([][]byte, len(f.Columns))
	known := 0
	for i := range f.Columns {
		value, given := values[f.Columns[i].Name]
		if given {
			known++
		}
		field, err := FieldOf(value)
		if err != nil {
			return fmt.Errorf("column %q: %w", f.Columns[i].Name, err)
		}
		switch value.(type) {
		case nil, string, []byte, time.Time:
			fields[i] = field
		default:
			fields[i] = f.Spelt(i, field)
		}
	}
	if known < len(values) && known < len(f.Columns) {
		if err := f.misspelt(values); err != nil {
			return err
		}
	}
	return f.Row(fields, dst)
}

// misspelt is Misspelt for a row in Go.
func (f *Fitted) misspelt(values map[string]any) error {
	names := f.ColumnNames()
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	var unknown []string
	for name := range values {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	return f.Misspelt(unknown, func(i int) bool { _, given := values[names[i]]; return given })
}

// FieldOf is a value as the field of a row; nil for a missing one.
func FieldOf(value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case []byte:
		return v, nil
	case json.Number:
		return []byte(v), nil
	case time.Time:
		return []byte(v.Format("2006-01-02 15:04:05")), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case float32:
		return real(float64(v), 32), nil
	case float64:
		return real(v, 64), nil
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Append(nil, v), nil
	}
	return nil, fmt.Errorf("%T is no value of a table: give a text, a number, a boolean, a time or nil", value)
}

// real writes a number; NaN is missing.
func real(v float64, bits int) []byte {
	if math.IsNaN(v) {
		return nil
	}
	return strconv.AppendFloat(nil, v, 'f', -1, bits)
}

// Expects describes the columns of a row, one a line, such as "plan: gold, silver or
// free; may be missing".
func (f *Fitted) Expects() []string {
	lines := make([]string, len(f.Columns))
	for i := range f.Columns {
		c := &f.Columns[i]
		text := string(c.Kind)
		switch c.Kind {
		case Category:
			const most = 8
			text += ": "
			for j, v := range c.Values[:min(most, len(c.Values))] {
				if j > 0 {
					text += ", "
				}
				text += short(v)
			}
			if more := len(c.Values) - most; more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
		case Date:
			text += " (" + c.Order + ")"
		}
		if c.Optional {
			text += "; may be missing"
		}
		lines[i] = short(c.Name) + ": " + text
	}
	return lines
}

// short cuts a text that stands in a line.
func short(text string) string {
	const most = 40
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Spelt is a boolean or a number as column i spells it: a category of True and False has True
// for true, and one of 1.0 and XL has 1.0 for 1. A text is not spelt anew.
func (f *Fitted) Spelt(i int, field []byte) []byte {
	c := &f.Columns[i]
	if c.Kind != Category {
		return field
	}
	field = bytes.TrimSpace(field)
	if j, known := c.words.FindValue(field); known {
		return []byte(c.Values[j])
	}
	return field
}
