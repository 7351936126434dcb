package svg

// Entry is a line or an area of a legend with its words.
type Entry struct {
	Words string
	Style Style // with Fill it is an area, else a line
	Mark  Mark  // on the line
}

// Sizes of a legend.
const (
	sampleLong = 24.0 // of a line
	swatchSide = 11.0 // of an area
	entryGap   = 18.0 // between entries
	legendRow  = 19.0
)

// sample is the width of what is before the words.
func (e *Entry) sample() float64 {
	if e.Style.Fill != "" {
		return swatchSide
	}
	return sampleLong
}

func (e *Entry) wide() float64 { return e.sample() + 6 + Width(e.Words, SmallSize) + entryGap }

// legendRows cuts entries into rows that fit, and gives the width of a column: 0 where each
// entry has its own. More than two rows have columns.
func legendRows(entries []Entry, wide float64) (rows [][]Entry, column float64) {
	rows = rowsOf(entries, wide, 0)
	if len(rows) <= 2 {
		return rows, 0
	}
	for _, row := range rows {
		for i := range row {
			column = max(column, row[i].wide())
		}
	}
	return rowsOf(entries, wide, column), column
}

// rowsOf cuts entries into rows that fit, of columns that wide at least.
func rowsOf(entries []Entry, wide, column float64) (rows [][]Entry) {
	left := -1.0
	for _, e := range entries {
		e.Words = Cut(e.Words, SmallSize, wide-e.sample()-6)
		need := max(e.wide(), column)
		if left < need-entryGap {
			rows, left = append(rows, nil), wide
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		left -= need
	}
	return rows
}

// Legend draws entries in rows from a corner on, and returns the bottom.
func (p *Picture) Legend(x, y, wide float64, entries ...Entry) float64 {
	rows, column := legendRows(entries, wide)
	for _, row := range rows {
		at := x
		for i := range row {
			row[i].draw(p, at, y+legendRow/2)
			at += max(row[i].wide(), column)
		}
		y += legendRow
	}
	return y
}

// draw draws an entry whose middle is at y.
func (e *Entry) draw(p *Picture, x, y float64) {
	if e.Style.Fill != "" {
		p.Rect(Box{x, y - swatchSide/2, swatchSide, swatchSide}, 2, e.Style)
	} else {
		p.Line(x, y, x+sampleLong, y, e.Style)
	}
	if e.Mark != NoMark {
		p.Mark(e.Mark, Point{x + sampleLong/2, y}, e.Style.Stroke)
	}
	p.Text(Text{X: x + e.sample() + 6, Y: y + 4, Words: e.Words, Size: SmallSize})
}
