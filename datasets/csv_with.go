package datasets

import (
	"bytes"
	"context"
	"fmt"
	"slices"
)

// rowTexts are the texts of some columns of a table, by row.
type rowTexts struct {
	names []string // of the columns
	width int      // columns
	text  []byte
	ends  []int // of each text in text, row after row
}

// textsOf reads the columns that s.With names; nil if it names none.
func (c *csvData) textsOf(ctx context.Context, s Spec, each tableRows) (*rowTexts, error) {
	if len(s.With) == 0 {
		return nil, nil
	}
	var from []int
	for _, name := range s.With {
		j, ok := c.column(name)
		if !ok {
			return nil, fmt.Errorf("%w: %s: there is no column %q to write beside the answers among %s%s", ErrSpec, c.path, name, c.describe(), c.hint(name))
		}
		if slices.Contains(from, j) {
			return nil, fmt.Errorf("%w: %s: the column %q is to be written beside the answers twice: name it once", ErrSpec, c.path, name)
		}
		from = append(from, j)
	}
	r := &rowTexts{names: s.With, width: len(from)}
	err := each(ctx, c.used(from), func(row csvRow) error {
		for _, j := range from {
			r.text = append(r.text, bytes.TrimSpace(row.Fields[j])...)
			r.ends = append(r.ends, len(r.text))
		}
		const end = 8 // bytes of a place in ends
		return fits(c.path, int64(len(r.text)+end*len(r.ends)), s.Memory)
	})
	if err == nil && len(r.ends) != c.rows*r.width {
		err = c.table.Changed()
	}
	return r, err
}

// of are the texts of a row.
func (r *rowTexts) of(row int) []string {
	texts := make([]string, r.width)
	from := 0
	if row > 0 {
		from = r.ends[row*r.width-1]
	}
	for i := range texts {
		end := r.ends[row*r.width+i]
		texts[i] = string(r.text[from:end])
		from = end
	}
	return texts
}

// WithNames are the names of what With gives; nil: nothing.
func (p *Part) WithNames() []string {
	if p.table.texts == nil {
		return nil
	}
	return p.table.texts.names
}

// With are the texts of the columns of Spec.With in the row of sample i, which is read in the part's
// first epoch; nil where Spec names none. A missing value is empty.
func (p *Part) With(i int) []string {
	if p.table.texts == nil {
		return nil
	}
	return p.table.texts.of(p.row(i, p.epochOrder(0)))
}
