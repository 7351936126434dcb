package columns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Version is that of a Fitted. A model whose Fitted has a later one is refused.
const Version = 1

// Fitted is what was found in the training part of a table: the columns that go
// into a model, and how each becomes features. It never changes once it is
// measured, and is then safe for concurrent use.
type Fitted struct {
	Version int
	Missing []string `json:",omitzero"` // as in Options: empty is not nil
	Columns []Column // in the order of the table
	// Header: the training file named its columns, if only by numbers. Checkpoints of earlier
	// versions do not say so.
	Header bool `json:",omitempty"`
}

// Column is a column that goes in.
type Column struct {
	Name string
	Kind Kind
	// Optional: a row may lack it. Fill then stands in its place.
	Optional  bool    `json:",omitempty"`
	Indicator bool    `json:",omitempty"` // a feature is 1 where the value is missing
	Fill      float64 // of a number its value, of a date its hours, of a boolean 0 or 1; a category has Values[0]
	Frequent  bool    `json:",omitempty"` // Fill is the most frequent value, not the median

	Values []string `json:",omitempty"` // of a category: those with a feature each, the most frequent first
	Other  bool     `json:",omitempty"` // of a category: a feature is 1 for all other values
	Order  string   `json:",omitempty"` // of a date
	Newest int32    `json:",omitempty"` // of a date: the newest of the training part, in hours from 1970 on

	words *Words // of Values
}

// The cells of missing values. Those of a category and a boolean are behind their values.
const (
	missingNumber  = int32(0x7fc00000) // NaN
	missingDate    = math.MinInt32
	missingBoolean = 2
)

// ErrFitted is the error of a Fitted that cannot be used.
var ErrFitted = errors.New("invalid description of columns")

// mostFeatures bounds the features of a row.
const mostFeatures = 1 << 24

// NumbersOf is the Fitted of a table of numbers, all of which a row must have.
func NumbersOf(names []string) *Fitted {
	f := &Fitted{Version: Version}
	for _, name := range names {
		f.Columns = append(f.Columns, Column{Name: name, Kind: Number})
	}
	return f
}

// UnmarshalJSON reads a Fitted, and refuses one that cannot be used.
func (f *Fitted) UnmarshalJSON(b []byte) error {
	type plain Fitted
	var in plain
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	out := Fitted(in)
	if err := out.check(); err != nil {
		return err
	}
	out.prepare()
	*f = out
	return nil
}

// check refuses what Found and Measure never make.
func (f *Fitted) check() error {
	if f.Version != Version {
		return fmt.Errorf("%w: it has version %d, and this program reads version %d: use the program that wrote it, or a newer one", ErrFitted, f.Version, Version)
	}
	seen := map[string]bool{}
	features := 0
	for i := range f.Columns {
		c := &f.Columns[i]
		if seen[c.Name] {
			return fmt.Errorf("%w: column %.40q is there twice", ErrFitted, c.Name)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return err
		}
		if features += c.features(); features > mostFeatures {
			return fmt.Errorf("%w: it has more than %d features", ErrFitted, mostFeatures)
		}
	}
	return nil
}

func (c *Column) check() error {
	bad := func(what string) error { return fmt.Errorf("%w: column %.40q %s", ErrFitted, c.Name, what) }
	values := map[string]bool{}
	for _, v := range c.Values {
		values[v] = true
	}
	switch {
	case !c.Kind.goesIn():
		return bad(fmt.Sprintf("is of kind %.40q", c.Kind))
	case c.Kind == Category && (len(c.Values) == 0 || len(c.Values) > MaxTop || len(values) != len(c.Values)):
		return bad(fmt.Sprintf("is a category of %d values", len(c.Values)))
	case c.Kind == Date && !slices.Contains(Orders, c.Order):
		return bad(fmt.Sprintf("is a date in the order %.40q", c.Order))
	case c.Kind == Boolean && c.Fill != 0 && c.Fill != 1:
		return bad("is a boolean whose fill is neither 0 nor 1")
	case c.Kind == Date && !(math.Abs(c.Fill) < math.MaxInt32), c.Kind == Number && !(math.Abs(c.Fill) <= math.MaxFloat32):
		return bad("has a fill out of range")
	}
	return nil
}

// prepare makes the index of each category.
func (f *Fitted) prepare() {
	for i := range f.Columns {
		if c := &f.Columns[i]; c.Kind == Category {
			c.words = NewWords(c.Values)
		}
	}
}

// Text is the canonical text of a Fitted: equal ones have equal texts. Header is not in it,
// since it changes no sample.
func (f *Fitted) Text() (string, error) {
	plain := *f
	plain.Header = false
	b, err := json.Marshal(&plain)
	return string(b), err
}

// ColumnNames are the names of the columns that go in.
func (f *Fitted) ColumnNames() []string {
	names := make([]string, len(f.Columns))
	for i := range f.Columns {
		names[i] = f.Columns[i].Name
	}
	return names
}

// Find is the index of the column of that name, -1 if none has it.
func (f *Fitted) Find(name string) int {
	return slices.IndexFunc(f.Columns, func(c Column) bool { return c.Name == name })
}

// Cell turns a field of column i into four bytes. A nil field is missing. The error
// says what is wrong with the field, and not where it is.
func (f *Fitted) Cell(i int, field []byte) (int32, error) {
	c := &f.Columns[i]
	field = bytes.TrimSpace(field)
	if IsMissing(f.Missing, field) {
		if !c.Optional {
			return 0, &unfit{"the value is missing, and data.columns says missing: refuse", "fill it in, or train with missing: median or frequent for the column"}
		}
		return c.missing(), nil
	}
	switch c.Kind {
	case Number:
		v, err := number(field)
		return int32(math.Float32bits(v)), err
	case Boolean:
		v, ok := Truth(field)
		if !ok {
			return 0, &unfit{fmt.Sprintf("%.40q is neither yes nor no, as the column's words are", field), wordAdvice + ", or train with data.columns and category for the column"}
		}
		if v {
			return 1, nil
		}
		return 0, nil
	case Date:
		v, ok := date(field, c.Order)
		if !ok { // a year in front leaves no doubt: it may come from a date of another format
			v, ok = date(field, YMD)
		}
		if !ok {
			return 0, &unfit{fmt.Sprintf("%.40q is not a date in the order %s", field, c.Order), wordAdvice}
		}
		return v, nil
	}
	if !utf8.Valid(field) {
		return 0, fmt.Errorf("%.40q is not UTF-8: save the file as UTF-8", field)
	}
	cell, known := c.words.Find(wordOf(field))
	if !known {
		cell = int32(len(c.Values))
	}
	return cell, nil
}

// Lacks reports whether a field is missing.
func (f *Fitted) Lacks(field []byte) bool { return IsMissing(f.Missing, bytes.TrimSpace(field)) }

// missing is the cell of a missing value.
func (c *Column) missing() int32 {
	switch c.Kind {
	case Number:
		return missingNumber
	case Date:
		return missingDate
	case Boolean:
		return missingBoolean
	}
	return int32(len(c.Values)) + 1
}

// Features is the number of features of a row.
func (f *Fitted) Features() int {
	n := 0
	for i := range f.Columns {
		n += f.Columns[i].features()
	}
	return n
}

// features is the number of features of a column.
func (c *Column) features() int {
	n := 1
	switch c.Kind {
	case Date:
		n = len(dateParts)
	case Category:
		n = len(c.Values)
		if c.Other {
			n++
		}
	}
	if c.Indicator {
		n++
	}
	return n
}

// dateParts are the features of a date.
var dateParts = []string{"year", "month", "weekday", "hour", "days before"}

// Names are the names of the features of a row, such as age, "age missing" and plan=gold.
func (f *Fitted) Names() []string {
	var names []string
	for i := range f.Columns {
		c := &f.Columns[i]
		switch c.Kind {
		case Category:
			for _, v := range c.Values {
				names = append(names, c.Name+"="+v)
			}
			if c.Other {
				names = append(names, c.Name+"=other")
			}
		case Date:
			for _, part := range dateParts {
				names = append(names, c.Name+" "+part)
			}
		default:
			names = append(names, c.Name)
		}
		if c.Indicator {
			names = append(names, c.Name+" missing")
		}
	}
	return names
}

// Scaled says of each feature whether it is a quantity, which standardizing scales.
// Others are 0 or 1, and stay so.
func (f *Fitted) Scaled() []bool {
	var scaled []bool
	for i := range f.Columns {
		c := &f.Columns[i]
		for j := range c.features() {
			scaled = append(scaled, c.Kind == Number && j == 0 || c.Kind == Date && j < len(dateParts))
		}
	}
	return scaled
}

// Expand turns the cells of a row into its features.
func (f *Fitted) Expand(cells []int32, dst []float32) {
	for i := range f.Columns {
		c := &f.Columns[i]
		n := c.features()
		c.expand(cells[i], dst[:n])
		dst = dst[n:]
	}
}

// expand turns a cell into features.
func (c *Column) expand(cell int32, dst []float32) {
	clear(dst)
	if cell == c.missing() {
		if c.Indicator {
			dst[len(dst)-1] = 1
		}
		cell = c.fill()
	}
	switch c.Kind {
	case Number:
		dst[0] = math.Float32frombits(uint32(cell))
	case Boolean:
		dst[0] = float32(cell)
	case Date:
		c.expandDate(cell, dst)
	case Category:
		if int(cell) < len(c.Values) || c.Other {
			dst[cell] = 1
		}
	}
}

// fill is the cell in place of a missing value.
func (c *Column) fill() int32 {
	switch c.Kind {
	case Number:
		return int32(math.Float32bits(float32(c.Fill)))
	case Boolean, Date:
		return int32(c.Fill)
	}
	return 0
}

// expandDate writes the parts of a date. A weekday counts from Monday, 0.
func (c *Column) expandDate(hours int32, dst []float32) {
	t := time.Unix(int64(hours)*3600, 0).UTC()
	dst[0], dst[1] = float32(t.Year()), float32(t.Month())
	dst[2], dst[3] = float32((t.Weekday()+6)%7), float32(t.Hour())
	dst[4] = float32(float64(int64(c.Newest)-int64(hours)) / 24)
}
