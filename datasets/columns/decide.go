package columns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/internal/units"
)

// find decides the kind of a column.
func (p *profile) find(c *Column) error {
	switch {
	case p.Kind != "" && p.Kind != Date:
		c.Kind = p.Kind
		if c.Kind.goesIn() && p.values == 0 {
			c.Kind, p.remark = Ignore, "every value is missing in the training part, so it is left out"
		}
		return nil
	case p.values == 0:
		c.Kind, p.remark = Ignore, "every value is missing in the training part, so it is left out"
		return nil
	case p.Kind == "" && p.numbers == p.values:
		c.Kind = Number
		if p.padded*10 >= p.values*almostTenths {
			p.addRemark(fmt.Sprintf("its numbers begin with zeros, as codes do, and are taken as numbers: data.columns: {%s: category} or {%s: ignore} takes them as codes, or leaves them out", short(p.Name), short(p.Name)))
		}
		return nil
	}
	if text := p.mixed(); text != "" && p.Kind == "" {
		return &FieldError{p.Name, p.word.at, text}
	}
	if isDate, err := p.findDate(c); isDate || err != nil {
		return err
	}
	c.Kind = p.ofWords()
	if hint := p.hint(); hint != "" {
		p.addRemark(hint)
	}
	return nil
}

// findDate decides whether a column holds dates, and in which order their numbers are.
func (p *profile) findDate(c *Column) (bool, error) {
	best := slices.Max(p.dates[:])
	if p.Kind == "" && best*10 < p.values*almostTenths {
		return false, nil
	}
	if best < p.values && p.Order == "" {
		return true, &FieldError{p.Name, p.undated.at, fmt.Sprintf("%.40q is not a date such as 2024-02-29 or 29.02.2024 13:05, and %s of the column's %s are: correct it, write data.missing: %s if it stands for a missing value, or data.columns: {%s: category}",
			p.undated.text, units.Thousands(best), units.Count(p.values, "value"), MissingList(p.missing, p.undated.text), short(p.Name))}
	}
	c.Kind, c.Order = Date, p.Order
	if c.Order == "" {
		if p.dates[1] == best && p.dates[2] == best {
			return true, &OptionError{p.Name, fmt.Sprintf("column %q holds dates such as %.40q, of which none tells whether the day or the month is first: write data.columns: {%s: {kind: date, order: %s}}, or order: %s",
				p.Name, p.word.text, short(p.Name), DMY, MDY)}
		}
		c.Order = Orders[slices.Index(p.dates[:], best)]
	}
	return true, nil
}

// ofWords decides among the kinds of words.
func (p *profile) ofWords() Kind {
	n, different := p.values, p.different()
	switch {
	case different == 2 && len(p.counts) == 2 && IsPair(p.counts[0].word, p.counts[1].word):
		return Boolean
	case different > few && p.sentences*10 >= n*almostTenths && 2*different >= n:
		return p.leaveOut(Text, "%s different texts in %s: left out", p.howMany(), units.Count(n, "row"))
	case different > few && different*10 >= n*almostTenths && 2*p.sentences >= n:
		return p.leaveOut(Text, "%s different texts in %s: left out", p.howMany(), units.Count(n, "row"))
	case different > few && different*10 >= n*almostTenths:
		return p.leaveOut(Identifier, "%s different words in %s, so it tells rows apart and nothing else: left out; data.columns: {%s: category} would use it", p.howMany(), units.Count(n, "row"), short(p.Name))
	}
	if 2*p.numbers >= n {
		p.remark = fmt.Sprintf("%s of %s are numbers, and others, such as %.20q, are not: taken as a category", units.Thousands(p.numbers), units.Count(n, "value"), p.word.text)
	}
	return Category
}

// addRemark adds a remark.
func (p *profile) addRemark(text string) {
	if p.remark != "" {
		p.remark += "; "
	}
	p.remark += text
}

// leaveOut leaves a column out, with a remark.
func (p *profile) leaveOut(k Kind, format string, args ...any) Kind {
	p.remark = fmt.Sprintf(format, args...)
	return k
}

// top chooses the values of a category that get a feature each: the most frequent, and
// of equally frequent ones the first by their bytes.
func (p *profile) top(c *Column) {
	sorted := slices.SortedFunc(slices.Values(p.counts), func(a, b count) int {
		return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.word, b.word))
	})
	most := cmp.Or(p.Top, DefaultTop)
	others := p.beyond
	for i, x := range sorted {
		if i < most {
			c.Values = append(c.Values, x.word)
		} else {
			others += x.n
		}
	}
	c.Other = others > 0
	if c.Other && p.remark == "" {
		p.remark = fmt.Sprintf("%d of %s values get a feature each; the others, %s of the column's values, share one", len(c.Values), p.howMany(), percent(others, p.values))
	}
}

// mixed says what is wrong with a column of numbers and other words; "" where it may be
// a category.
func (p *profile) mixed() string {
	others, values := p.values-p.numbers, p.values
	if p.numbers == 0 || others == 0 {
		return ""
	}
	one := p.different() == 1 && !p.counting
	if p.counting {
		one = p.different()-p.distinctNumbers() == 1
	}
	if !one && p.numbers*10 < values*almostTenths {
		return ""
	}
	return fmt.Sprintf("%s, and %s of the column's %s are: if it stands for a missing value, write data.missing: %s; if the numbers are names, write data.columns: {%s: category}; otherwise correct it",
		noNumber(p.word.text), units.Thousands(p.numbers), units.Count(values, "value"), MissingList(p.missing, p.word.text), short(p.Name))
}

// distinctNumbers counts the words that are numbers.
func (p *profile) distinctNumbers() (n int) {
	for _, c := range p.counts {
		if isNumber([]byte(c.word)) {
			n++
		}
	}
	return n
}
