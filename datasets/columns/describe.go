package columns

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	table "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// Description says what was found in a column, and what becomes of it.
type Description struct {
	Name      string
	Kind      Kind
	Label     bool   // it is what the model predicts
	Different int    // values; -1: they were not counted
	AtLeast   bool   // Different counts some values of equal words twice
	Missing   int    // rows of the training part that lack it
	Rows      int    // of the training part
	Range     string // from the least value to the greatest, or the most frequent words
	Features  int    // that it becomes; 0: it is left out
	Remark    string // "": nothing is odd about it
}

// remark adds a remark.
func (d *Description) remark(format string, args ...any) {
	if d.Remark != "" {
		d.Remark += "; "
	}
	d.Remark += fmt.Sprintf(format, args...)
}

// rangeWidth is the most characters of a range in a table.
const rangeWidth = 21

// numberText writes a number with at most so many digits, and six at most beside a point.
// Commas are between thousands from 10,000 on, so that years have none, and below 2^24:
// a float32 does not hold every whole number beyond.
func numberText(v float32, digits int) string {
	if a := math.Abs(float64(v)); a >= 1e4 && a < min(1<<24, math.Pow10(digits)) {
		return units.Number(float64(v))
	}
	return strconv.FormatFloat(float64(v), 'g', min(digits, 6), 32)
}

// Range writes the least and the greatest of some numbers, with fewer digits where the line of a
// table has no room for all: a text that is cut would lose its exponent.
func Range(low, high float32) (text string) {
	for digits := 8; digits >= 2; digits-- {
		if text = numberText(low, digits) + " to " + numberText(high, digits); len(text) <= rangeWidth {
			break
		}
	}
	return text
}

// Shares lists the most frequent of some names, each with its share, as far as the line of a table has
// room. Of equally frequent ones the first comes first.
func Shares(names []string, counts []int) (text string) {
	order, sum := make([]int, len(names)), 0
	for i := range order {
		order[i] = i
		sum += counts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
	const rest = ", …"
	for n, i := range order {
		share := " " + percent(counts[i], sum)
		room := rangeWidth - utf8.RuneCountInString(text)
		if n < len(order)-1 {
			room -= utf8.RuneCountInString(rest)
		}
		if n == 0 {
			text = table.Cut(names[i], room-utf8.RuneCountInString(share)) + share
			continue
		}
		next := ", " + names[i] + share
		if utf8.RuneCountInString(next) > room {
			return text + rest
		}
		text += next
	}
	return text
}

// percent is a share in words.
func percent(part, of int) string {
	v := 100 * float64(part) / float64(max(1, of))
	switch {
	case part > 0 && v < 0.1:
		return "under 0.1%"
	case v < 10:
		return fmt.Sprintf("%.1f%%", v)
	}
	return fmt.Sprintf("%.0f%%", v)
}

// becomes says what becomes of a column.
func (d *Description) becomes() string {
	switch {
	case d.Label:
		return "the label"
	case d.Features == 0:
		return "left out"
	}
	return units.Count(d.Features, "feature")
}

// Thresholds says by which numbers kinds are found.
var Thresholds = fmt.Sprintf("A column of more than %d different words is left out where %d of 10 values or more differ, or have three words or more while half of them differ. The %d most frequent values of a category have a feature each. data.columns changes this.", few, almostTenths, DefaultTop)

// Table prints descriptions, in lines of width characters. Of more than most columns it
// has those that are not plain numbers first, and counts the rest; 0: it has all.
func Table(list []Description, most, width int) string {
	shown := slices.Clone(list)
	if most > 0 && len(list) > most {
		slices.SortStableFunc(shown, func(a, b Description) int { return a.rank() - b.rank() })
		shown = shown[:most]
	}
	rows := [][]string{{"COLUMN", "KIND", "DISTINCT", "MISSING", "RANGE", "BECOMES"}}
	for _, d := range shown {
		rows = append(rows, d.cells())
	}
	text := table.Format(rows, table.Layout{Right: []int{2, 3}, Cut: []int{0}, Drop: []int{2}, Width: width})
	if more := len(list) - len(shown); more > 0 {
		text += fmt.Sprintf("and %d more columns\n", more)
	}
	return text
}

// rank is less for columns that are more worth a line.
func (d *Description) rank() int {
	switch {
	case d.Label:
		return 0
	case d.Remark != "":
		return 1
	case d.Kind != Number || d.Missing > 0:
		return 2
	}
	return 3
}

func (d *Description) cells() []string {
	different := "-"
	if d.Different >= 0 {
		different = units.Thousands(d.Different)
	}
	if d.AtLeast {
		different = "many"
	}
	missing := "0"
	if d.Missing > 0 {
		missing = fmt.Sprintf("%s %s", units.Thousands(d.Missing), percent(d.Missing, d.Rows))
	}
	return []string{d.Name, string(d.Kind), different, missing, table.Cut(d.Range, rangeWidth), d.becomes()}
}

// Notes are the remarks, each with its column: about those that are left out, and odd
// ones.
func Notes(list []Description) []string {
	const most = 20
	var notes []string
	for _, d := range list {
		if d.Remark == "" {
			continue
		}
		if len(notes) == most {
			return append(notes, "and other columns with notes: trainer data prints them")
		}
		notes = append(notes, fmt.Sprintf("column %q: %s", short(d.Name), d.Remark))
	}
	return notes
}

// ErrOther is the error of rows that were others a moment ago.
var ErrOther = errors.New("the table has changed")

// Measure completes a Fitted with what depends on all values of a column: medians, the
// most frequent values and the newest dates. each hands over the cells of the training
// part's rows; it is called for as many columns at once as most bytes have room for, at least one.
// Measure describes every column of the Finder. ErrOther says that these are not the
// rows that were added.
func (f *Finder) Measure(fitted *Fitted, rows int, most int64, each func(yield func(cells []int32))) ([]Description, error) {
	out := make([]Description, len(f.columns))
	for i := range f.columns {
		p := &f.columns[i]
		out[i] = Description{Name: p.Name, Kind: p.found, Missing: p.gone, Rows: p.gone + p.values, Different: p.differ, Remark: p.remark, AtLeast: p.beyond > 0}
	}
	atOnce := max(1, int(min(most/4/int64(max(1, rows)), int64(len(fitted.Columns)))))
	cells, n := make([]int32, atOnce*rows), make([]int, atOnce)
	for from := 0; from < len(fitted.Columns); from += atOnce {
		some := fitted.Columns[from:min(from+atOnce, len(fitted.Columns))]
		clear(n)
		each(func(row []int32) {
			for j := range some {
				if row[from+j] != some[j].missing() {
					cells[j*rows+n[j]] = row[from+j]
					n[j]++
				}
			}
		})
		for j := range some {
			c, of := &some[j], f.found[from+j]
			if n[j] != f.columns[of].values {
				return nil, ErrOther
			}
			c.measure(cells[j*rows:j*rows+n[j]], f.columns[of].Missing, &out[of])
			out[of].Features = c.features()
		}
	}
	return out, nil
}

// measure completes a column from the cells that are not missing, which it sorts.
func (c *Column) measure(cells []int32, fill string, d *Description) {
	c.Frequent = fill == FillFrequent && c.Kind != Category && c.Kind != Boolean
	switch c.Kind {
	case Category:
		d.Range = c.Values[0]
		if len(c.Values) > 1 {
			d.Range += ", " + c.Values[1]
		}
		if len(c.Values) > 2 {
			d.Range += ", …"
		}
	case Boolean:
		ones := 0
		for _, v := range cells {
			ones += int(v)
		}
		if 2*ones > len(cells) {
			c.Fill = 1
		}
		d.Different, d.Range = 1, percent(ones, len(cells))+" yes"
		if ones > 0 && ones < len(cells) {
			d.Different = 2
		}
	case Date:
		sorted(cells, cmp.Compare[int32], d)
		c.Fill, c.Newest = float64(c.pick(cells)), cells[len(cells)-1]
		d.Range = dateText(cells[0]) + "–" + dateText(c.Newest)
	case Number:
		at := func(cell int32) float32 { return math.Float32frombits(uint32(cell)) }
		sorted(cells, func(a, b int32) int { return cmp.Compare(at(a), at(b)) }, d)
		c.Fill = float64(at(c.pick(cells)))
		low, high := at(cells[0]), at(cells[len(cells)-1])
		d.Range = Range(low, high)
		if packedDays(cells) {
			d.remark("%s looks like a day without dashes, and is taken as a number: write 2024-02-29 to have its year, month and weekday as features", strconv.Itoa(int(low)))
		}
		if low >= leastCode && d.Different*10 >= len(cells)*almostTenths && len(cells) > few && whole(cells) {
			d.remark("whole numbers of ten digits or more, nearly all different, of which a model sees the first seven: is it a code? data.columns: {%s: ignore} leaves it out", short(c.Name))
		}
		if len(cells) > few && d.Different == len(cells) && whole(cells) && float64(high)-float64(low) < 2*float64(len(cells)) {
			d.remark("whole numbers that are all different and close together: is it the number of the row? data.columns: {%s: ignore} leaves it out", short(c.Name))
		}
	}
	if d.Different == 1 {
		d.remark("every row has the same value, which tells nothing")
	}
}

// leastCode is the least number of ten digits: keys and telephone numbers have as many, and few amounts do.
const leastCode = 1e9

// sorted sorts cells and counts the different ones.
func sorted(cells []int32, compare func(a, b int32) int, d *Description) {
	slices.SortFunc(cells, compare)
	d.Different, d.AtLeast = 1, false
	for i := 1; i < len(cells); i++ {
		if compare(cells[i-1], cells[i]) != 0 {
			d.Different++
		}
	}
}

// pick is the cell of a column's fill among sorted cells: the lower median, or the most
// frequent one, of several the least.
func (c *Column) pick(cells []int32) int32 {
	if !c.Frequent {
		return cells[(len(cells)-1)/2]
	}
	best, most := cells[0], 0
	for from := 0; from < len(cells); {
		to := from
		for to < len(cells) && cells[to] == cells[from] {
			to++
		}
		if to-from > most {
			best, most = cells[from], to-from
		}
		from = to
	}
	return best
}

// whole reports whether numbers are whole.
func whole(cells []int32) bool {
	return !slices.ContainsFunc(cells, func(v int32) bool {
		x := float64(math.Float32frombits(uint32(v)))
		return x != math.Trunc(x)
	})
}
