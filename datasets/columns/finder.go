package columns

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/internal/units"
)

// FieldError is an error about a field of a table.
type FieldError struct {
	Column string
	At     string // its place, as Add was given it
	Text   string
}

func (e *FieldError) Error() string { return fmt.Sprintf("column %q: %s", e.Column, e.Text) }

// OptionError is an error about an Option.
type OptionError struct{ Name, Text string }

func (e *OptionError) Error() string { return e.Text }

// LimitError is an error about a table with too many columns or different words.
type LimitError struct{ Text string }

func (e *LimitError) Error() string { return e.Text }

// tooMany is a LimitError.
func tooMany(format string, args ...any) error { return &LimitError{fmt.Sprintf(format, args...)} }

// mostWords is the bytes that the different words of a table may take while their
// columns are looked at.
const mostWords = 512 << 20

// wordBytes is the bytes that a word takes beside its letters, columnBytes those of a column
// without words.
const (
	wordBytes   = 96
	columnBytes = 320
)

// Finder finds the kinds of columns from the rows of the training part of a table. It
// takes memory for their different words, and none for the rows.
type Finder struct {
	missing []string
	columns []profile
	left    int64 // bytes that words may still take
	found   []int // the columns that go in, by the order of Fitted.Columns
}

// profile is what is known about a column.
type profile struct {
	Option
	values    int // that are not missing
	gone      int // that are missing
	numbers   int
	dates     [3]int // by order
	sentences int
	words     map[string]int // by word: its index in counts
	counts    []count
	beyond    int      // values of words that came after MaxTop others
	counting  bool     // numbers are in words, too
	word      first    // that is no number
	undated   first    // that is no date
	missing   []string // the words for a missing value; nil: the usual ones
	padded    int      // numbers that begin with a zero that says nothing
	found     Kind
	differ    int // different words, once the words are let go of; -1: they were not counted
	remark    string
}

// count is how often a word occurs.
type count struct {
	word string
	n    int
}

// first is the first value of some sort.
type first struct {
	text string // "": there is none
	at   string
}

// NewFinder looks at a table with columns of these names. Memory is the most bytes that
// it may take; 0: no limit but its own.
func NewFinder(names []string, o Options, memory int64) (*Finder, error) {
	f := &Finder{missing: o.Missing, left: mostWords, columns: make([]profile, len(names))}
	if memory > 0 {
		f.left = min(f.left, memory)
	}
	if f.left -= int64(len(names)) * columnBytes; f.left < 0 {
		return nil, tooMany("there is no memory for the words of %d columns: leave some out with data.ignore", len(names))
	}
	if slices.Contains(names, All) {
		return nil, &OptionError{All, fmt.Sprintf("a column is called %q, which stands for all other columns in data.columns: rename it", All)}
	}
	known, given := make(map[string]bool, len(names)), o.byName()
	for i, name := range names {
		known[name] = true
		x, own := given[name]
		if !own {
			x = given[All]
		}
		x.Name = name
		f.columns[i].Option = x
		f.columns[i].counting, f.columns[i].missing = x.Kind == Category, o.Missing
	}
	for _, x := range o.Columns {
		if err := x.check(); err != nil {
			return nil, err
		}
		if x.Name != All && !known[x.Name] {
			return nil, &OptionError{x.Name, fmt.Sprintf("there is no column %.40q among the features, which are %s: %s", x.Name, listed(names), nameOne(x.Name, names))}
		}
	}
	return f, nil
}

// nameOne advises about a name that is none of some.
func nameOne(written string, names []string) string {
	if near := Meant(written, names); near != "" {
		return fmt.Sprintf("did you mean %q?", short(near))
	}
	return "name one of them"
}

// listed lists the first of some names.
func listed(names []string) string {
	const most = 8
	text := make([]string, 0, most+1)
	for _, name := range names[:min(most, len(names))] {
		text = append(text, short(name))
	}
	if len(names) > most {
		text = append(text, "…")
	}
	return strings.Join(text, ", ")
}

// check refuses an option that contradicts itself.
func (o *Option) check() error {
	bad := func(format string, args ...any) error { return &OptionError{o.Name, fmt.Sprintf(format, args...)} }
	ask := func(value string, valid []string) bool { return value == "" || slices.Contains(valid, value) }
	switch {
	case o.Kind != "" && !slices.Contains(Kinds, o.Kind):
		return bad("there is no kind %.40q", o.Kind)
	case !ask(o.Missing, Fills), !ask(o.Order, Orders), o.Top < 0, o.Top > MaxTop:
		return bad("missing %.40q, order %.40q and top %d: use one of %s, one of %s, and 1 to %d", o.Missing, o.Order, o.Top, strings.Join(Fills, ", "), strings.Join(Orders, ", "), MaxTop)
	case o.Missing == FillMedian && (o.Kind == Category || o.Kind == Boolean):
		return bad("a %s has no median: use missing: %s", o.Kind, FillFrequent)
	case o.Top > 0 && o.Kind != "" && o.Kind != Category:
		return bad("top is for a category, not for kind %s", o.Kind)
	case o.Order != "" && o.Kind != "" && o.Kind != Date:
		return bad("order is for a date, not for kind %s", o.Kind)
	}
	return nil
}

// Add looks at a row: a field for each column. at gives the place of a column's field, for errors.
func (f *Finder) Add(fields [][]byte, at func(column int) string) error {
	for i := range f.columns {
		p := &f.columns[i]
		if p.Kind != "" && p.Kind != Category && p.Kind != Date {
			p.skim(f.missing, fields[i])
			continue
		}
		if err := f.add(p, i, bytes.TrimSpace(fields[i]), at); err != nil {
			return err
		}
	}
	return nil
}

// skim counts the values of a column whose kind is known.
func (p *profile) skim(missing []string, field []byte) {
	if IsMissing(missing, bytes.TrimSpace(field)) {
		p.gone++
	} else {
		p.values++
	}
}

// add looks at a field of a column whose kind or words are to be found.
func (f *Finder) add(p *profile, i int, field []byte, at func(int) string) error {
	if IsMissing(f.missing, field) {
		p.gone++
		return nil
	}
	p.values++
	if isNumber(field) {
		p.numbers++
		if len(field) > 1 && field[0] == '0' && field[1] >= '0' && field[1] <= '9' {
			p.padded++
		}
		if p.undated.text == "" {
			p.undated = first{string(wordOf(field)), at(i)}
		}
		if !p.counting {
			return nil
		}
		return f.count(p, field)
	}
	if !utf8.Valid(field) {
		return &FieldError{p.Name, at(i), fmt.Sprintf("%.40q is not UTF-8: save the file as UTF-8", field)}
	}
	if p.word.text == "" {
		p.word = first{string(wordOf(field)), at(i)}
	}
	dated := false
	if field[0] >= '0' && field[0] <= '9' {
		for order, fits := range dateOrders(field) {
			if fits {
				p.dates[order]++
				dated = true
			}
		}
	}
	if !dated && p.undated.text == "" {
		p.undated = first{string(wordOf(field)), at(i)}
	}
	if p.Kind == Date {
		return nil
	}
	if isSentence(field) {
		p.sentences++
	}
	return f.count(p, field)
}

// count counts a word.
func (f *Finder) count(p *profile, field []byte) error {
	word := wordOf(field)
	if i, known := p.words[string(word)]; known {
		p.counts[i].n++
		return nil
	}
	if len(p.counts) == MaxTop {
		p.beyond++
		return nil
	}
	if f.left -= int64(len(word)) + wordBytes; f.left < 0 {
		return tooMany("the different words of all columns up to %q take more memory than there is for them: leave columns of texts out with data.ignore", p.Name)
	}
	if p.words == nil {
		p.words = map[string]int{}
	}
	p.words[string(word)] = len(p.counts)
	p.counts = append(p.counts, count{string(word), 1})
	return nil
}

// Again reports whether all rows must be added once more: a column that turns out to be
// of words began with numbers.
func (f *Finder) Again() bool {
	again := false
	for i := range f.columns {
		p := &f.columns[i]
		if p.Kind == "" && !p.counting && p.numbers > 0 && p.numbers < p.values && p.mixed() == "" {
			p.counting, again = true, true
		}
	}
	if !again {
		return false
	}
	for i := range f.columns {
		p := &f.columns[i]
		for _, c := range p.counts {
			f.left += int64(len(c.word)) + wordBytes
		}
		*p = profile{Option: p.Option, counting: p.counting, missing: p.missing}
	}
	return true
}

// different is the number of different words; where they are too many to be counted, the
// most that there may be.
func (p *profile) different() int { return len(p.counts) + p.beyond }

// howMany says how many different words there are.
func (p *profile) howMany() string {
	if p.beyond > 0 {
		return "more than " + units.Thousands(len(p.counts))
	}
	return units.Thousands(len(p.counts))
}

// Found is the columns that go in. What depends on all values of a column is not known
// before Measure.
func (f *Finder) Found() (*Fitted, error) {
	out, features := &Fitted{Version: Version, Missing: f.missing}, 0
	for i := range f.columns {
		p := &f.columns[i]
		c := Column{Name: p.Name}
		if err := p.find(&c); err != nil {
			return nil, err
		}
		p.found = c.Kind
		if !c.Kind.goesIn() {
			continue
		}
		if p.found == Category {
			p.top(&c)
		}
		c.Optional = (p.gone > 0 || p.Missing != "") && p.Missing != FillRefuse
		c.Indicator = p.gone > 0 && c.Optional
		f.found = append(f.found, i)
		out.Columns = append(out.Columns, c)
		if features += c.features(); features > mostFeatures {
			return nil, tooMany("the columns up to %q become more than %d features: leave some out with data.ignore", p.Name, mostFeatures)
		}
	}
	f.forget()
	out.prepare()
	return out, nil
}

// forget lets go of the words, whose memory is for the cells then.
func (f *Finder) forget() {
	for i := range f.columns {
		p := &f.columns[i]
		if p.differ = p.different(); p.differ == 0 {
			p.differ = -1
		}
		p.words, p.counts = nil, nil
	}
}

// Sources are the columns of the table that go in, by the order of Fitted.Columns.
func (f *Finder) Sources() []int { return f.found }

// Allow lets rows lack column i, unless its option refuses that: rows that are not in the
// training part do.
func (f *Finder) Allow(fitted *Fitted, i int) {
	if f.columns[f.found[i]].Missing != FillRefuse {
		fitted.Columns[i].Optional = true
	}
}

// mostOptions and mostNames bound the options that a run's config keeps, and the bytes of their
// names: a config is no file of data.
const (
	mostOptions = 4096
	mostNames   = 256 << 10
)

// Resolved are options that find the same kinds again, whatever the rows: for a config
// that is kept. Columns without their own are of the kind that All has.
func (f *Finder) Resolved(fitted *Fitted) ([]Option, error) {
	all := make([]Option, len(f.columns))
	plain := map[Kind]int{}
	for i := range f.columns {
		p := &f.columns[i]
		all[i] = Option{Name: p.Name, Kind: p.found}
		if p.found.goesIn() {
			all[i].Missing = p.Missing
		}
		if p.found == Category {
			all[i].Top = p.Top
		}
	}
	for j, i := range f.found {
		c, x := &fitted.Columns[j], &all[i]
		x.Order = c.Order
		switch {
		case x.Missing == FillMedian && (c.Kind == Category || c.Kind == Boolean): // of "*": they have none
			x.Missing = FillFrequent
		case x.Missing != "" || !c.Optional:
		case c.Kind == Number || c.Kind == Date:
			x.Missing = FillMedian
		default:
			x.Missing = FillFrequent
		}
	}
	for _, x := range all {
		if x == (Option{Name: x.Name, Kind: x.Kind}) {
			plain[x.Kind]++
		}
	}
	usual := Number
	if plain[Ignore] > plain[Number] {
		usual = Ignore
	}
	out := slices.DeleteFunc(all, func(x Option) bool { return x == Option{Name: x.Name, Kind: usual} })
	if plain[usual] > 0 {
		out = append([]Option{{Name: All, Kind: usual}}, out...)
	}
	letters := 0
	for _, x := range out {
		letters += len(x.Name)
	}
	if len(out) > mostOptions || letters > mostNames {
		return nil, tooMany("the kinds of %d columns, with %d letters in their names, are too many for the run's config, which has room for %d and %d: leave some out with data.ignore, or shorten their names", len(out), letters, mostOptions, mostNames)
	}
	return out, nil
}
