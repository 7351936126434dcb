package exchange

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/engine/onnx"
)

// rows declares an input for each column of a table, by its name, and turns them into features,
// as columns.Fitted does. first is the first input.
func (o *onnxModel) rows(f *columns.Fitted) (features, first string, err error) {
	r := &onnxRow{o.b}
	var parts []string
	for i := range f.Columns {
		c := &f.Columns[i]
		in := o.b.Input(cmp.Or(c.Name, fmt.Sprintf("column %d", i+1)), inputType(c), onnx.Dim{Name: onnx.Batch}, onnx.Dim{Size: 1})
		if first == "" {
			first = in
		}
		parts = append(parts, r.column(f, c, in)...)
	}
	return o.scaled(r.joined(parts)), first, o.names("berth.columns", f.Expects())
}

// inputType is the type of a column's values. A date has so many seconds that 32 bits would round
// them.
func inputType(c *columns.Column) onnx.Type {
	switch c.Kind {
	case columns.Category:
		return onnx.String
	case columns.Date:
		return onnx.Float64
	}
	return onnx.Float32
}

// onnxRow appends the nodes that turn columns into features.
type onnxRow struct{ *onnx.Builder }

// column is the features of a column.
func (r *onnxRow) column(f *columns.Fitted, c *columns.Column, in string) (features []string) {
	fill := r.Float
	switch c.Kind {
	case columns.Category:
		in = r.cell(f, c, in)
		fill = func(float64) string { return r.Int(0) }
	case columns.Date:
		fill = func(hours float64) string { return r.number(3600 * float64(int32(hours))) }
	}
	if c.Optional || c.Indicator {
		missing := r.missing(f, c, in)
		in = r.Node("Where", nil, missing, fill(c.Fill), in)
		if c.Indicator {
			features = []string{r.Cast(missing, onnx.Float32)}
		}
	}
	switch c.Kind {
	case columns.Category:
		return append([]string{r.category(c, in)}, features...)
	case columns.Date:
		return append(r.date(c, in), features...)
	}
	return append([]string{in}, features...)
}

// missing says where a column's value is missing, bool[batch,1].
func (r *onnxRow) missing(f *columns.Fitted, c *columns.Column, in string) string {
	if c.Kind == columns.Category {
		return r.Node("Equal", nil, in, r.Int(lacking(c)))
	}
	missing := r.Node("IsNaN", nil, in)
	if c.Kind == columns.Number { // a boolean's 1 stands for yes
		for _, number := range columns.MissingNumbers(f.Missing) {
			missing = r.Node("Or", nil, missing, r.Node("Equal", nil, in, r.Float(float64(number))))
		}
	}
	return missing
}

// cell is the place of a word among the values of a category. The place after the last value stands
// for all others, and the one after it for words that mean a missing value.
func (r *onnxRow) cell(f *columns.Fitted, c *columns.Column, in string) string {
	keys, cells := slices.Clone(c.Values), make([]int64, len(c.Values))
	for i := range cells {
		cells[i] = int64(i)
	}
	for _, text := range columns.MissingTexts(f.Missing) {
		if i := slices.Index(keys, text); i >= 0 {
			cells[i] = lacking(c)
			continue
		}
		keys, cells = append(keys, text), append(cells, lacking(c))
	}
	return r.Append(onnx.Node{Op: "LabelEncoder", Domain: onnx.Tables, In: []string{in}, Attrs: []onnx.Attr{
		{Name: "keys_strings", Value: keys}, {Name: "values_int64s", Value: cells}, {Name: "default_int64", Value: int64(len(c.Values))},
	}})[0]
}

// lacking is the cell of a missing value.
func lacking(c *columns.Column) int64 { return int64(len(c.Values) + 1) }

// category is a feature for each value that has one.
func (r *onnxRow) category(c *columns.Column, cell string) string {
	places := make([]int64, len(c.Values))
	if c.Other {
		places = append(places, 0)
	}
	for i := range places {
		places[i] = int64(i)
	}
	return r.Cast(r.Node("Equal", nil, cell, r.Ints(places...)), onnx.Float32)
}

// date is the parts of a date, from its seconds since 1970. Calendar days are counted from March
// on, so that leap days are at the end of a year, in eras of 400 years (Hinnant,
// "chrono-Compatible Low-Level Date Algorithms").
func (r *onnxRow) date(c *columns.Column, seconds string) []string {
	hours := r.quotient(seconds, 3600)
	days := r.quotient(hours, 24)
	hour := r.minus(hours, r.times(days, 24))
	weekday := r.remainder(r.plus(days, 3), 7) // 1970 began on a Thursday
	const daysBefore1970, perEra = 719468, 146097
	day := r.plus(days, daysBefore1970)
	era := r.quotient(day, perEra)
	day = r.remainder(day, perEra)
	leaps := r.minus(r.minus(r.quotient(day, 1460), r.quotient(day, 36524)), r.times(r.quotient(day, 146096), -1))
	year := r.quotient(r.minus(day, leaps), 365)
	ofYear := r.minus(day, r.minus(r.sum(r.times(year, 365), r.quotient(year, 4)), r.quotient(year, 100)))
	month := r.quotient(r.plus(r.times(ofYear, 5), 2), 153) // 0 is March
	late := r.quotient(month, 10)                           // 1 in January and February
	month = r.minus(r.plus(month, 3), r.times(late, 12))
	year = r.sum(r.sum(year, r.times(era, 400)), late)
	before := r.Node("Div", nil, r.minus(r.number(float64(c.Newest)), hours), r.number(24))
	parts := []string{year, month, weekday, hour, before}
	for i, x := range parts {
		parts[i] = r.Cast(x, onnx.Float32)
	}
	return parts
}

// Arithmetic on whole numbers in f64, which has them exactly.

func (r *onnxRow) number(v float64) string          { return r.Doubles(nil, v) }
func (r *onnxRow) sum(x, y string) string           { return r.Node("Add", nil, x, y) }
func (r *onnxRow) minus(x, y string) string         { return r.Node("Sub", nil, x, y) }
func (r *onnxRow) plus(x string, v float64) string  { return r.sum(x, r.number(v)) }
func (r *onnxRow) times(x string, v float64) string { return r.Node("Mul", nil, x, r.number(v)) }
func (r *onnxRow) quotient(x string, v float64) string { // rounded down
	return r.Node("Floor", nil, r.Node("Div", nil, x, r.number(v)))
}
func (r *onnxRow) remainder(x string, v float64) string {
	return r.minus(x, r.times(r.quotient(x, v), v))
}

// joined is columns side by side.
func (r *onnxRow) joined(parts []string) string {
	return r.Node("Concat", []onnx.Attr{{Name: "axis", Value: int64(1)}}, parts...)
}
