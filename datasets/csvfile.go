package datasets

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/shape"
)

// csvFile is a parsed CSV file.
type csvFile struct {
	path     string
	opt      CSVOptions
	unit     bool     // labels must lie from 0 to 1
	like     []string // names of a model's features, to be read besides labels; nil: all columns
	header   []string // nil if the file has none
	width    int      // columns
	first    string   // the first row's first field; the first line until it is known
	features []int    // feature columns, in the order of values
	labels   []int    // label columns; none when reading for prediction
	rows     int
	values   []float32 // [rows, features]
	targets  []float32 // [rows, labels], of regression
	classes  []string  // [rows], of classification
}

// read parses the file at c.path. wanted, if not nil, is the names of the
// features of a model: only they are read.
func (c *csvFile) read(ctx context.Context, wanted []string) error {
	s, err := openStream(ctx, c.path)
	if err != nil {
		return err
	}
	return errors.Join(c.parse(s, wanted), s.Close())
}

// parse reads rows until the end. Its memory grows with what it has read.
func (c *csvFile) parse(r io.Reader, wanted []string) error {
	rd, err := c.reader(r)
	if err != nil {
		return err
	}
	head, at, err := c.firstTwo(rd)
	if err != nil {
		return err
	}
	if c.isHeader(head[0], head[1], wanted) {
		c.header, head[0] = trimmed(head[0]), nil
	}
	if hint := c.otherComma(); hint != "" && len(wanted) != 1 {
		return blame("delimiter", fmt.Errorf("%w: %s: its rows are one column%s", ErrSpec, c.path, hint))
	}
	if err := c.choose(wanted); err != nil {
		return err
	}
	for i := range head {
		if head[i] == nil {
			continue
		}
		if err := c.row(head[i], at[i]); err != nil {
			return err
		}
	}
	return c.rest(rd)
}

// firstTwo reads the first two rows, since whether the first is a header shows
// against the second; the second may be nil.
func (c *csvFile) firstTwo(rd *csv.Reader) (rows [2][]string, at [2][]fieldPos, err error) {
	for i := range rows {
		rec, err := c.next(rd)
		if err == io.EOF {
			break
		}
		if err != nil {
			return rows, at, err
		}
		rows[i], at[i] = slices.Clone(rec), positions(rd, len(rec), nil)
	}
	if rows[0] == nil {
		return rows, at, fmt.Errorf("%w: %s is empty", ErrTooFew, c.path)
	}
	return rows, at, nil
}

// rest reads the rows after the first two.
func (c *csvFile) rest(rd *csv.Reader) error {
	var at []fieldPos
	for {
		rec, err := c.next(rd)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		at = positions(rd, len(rec), at[:0])
		if err := c.row(rec, at); err != nil {
			return err
		}
	}
	if c.rows == 0 {
		return fmt.Errorf("%w: %s has a header but no rows: put samples below it", ErrTooFew, c.path)
	}
	return nil
}

// next reads a row, or io.EOF. All rows are as wide as the first.
func (c *csvFile) next(rd *csv.Reader) ([]string, error) {
	rec, err := rd.Read()
	switch {
	case err == io.EOF:
		return nil, err
	case errors.Is(err, csv.ErrFieldCount):
		line, _ := rd.FieldPos(0)
		hint := c.otherComma()
		if hint == "" {
			hint = fmt.Sprintf(": complete the row, or quote fields that have a %q in them", rd.Comma)
		}
		return nil, fmt.Errorf("%w: %s:%d: %d columns where the first row has %d%s", ErrFormat, c.path, line, len(rec), c.width, hint)
	case err != nil:
		return nil, c.wrap(err)
	}
	if c.width == 0 {
		c.width, c.first = len(rec), rec[0]
	}
	return rec, nil
}

// otherComma says what seems to stand between columns, if the first row is one
// column and another sign than was given divides it.
func (c *csvFile) otherComma() string {
	if c.width > 1 || c.width == 0 && strings.ContainsRune(c.first, cmp.Or(c.opt.Comma, ',')) {
		return ""
	}
	for _, comma := range []string{";", "\t", "|"} {
		if strings.Contains(c.first, comma) {
			return fmt.Sprintf("; they look separated by %q: set data.delimiter to that", comma)
		}
	}
	return ""
}

// reader skips a byte order mark and parses fields.
func (c *csvFile) reader(r io.Reader) (*csv.Reader, error) {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		if _, err := b.Discard(len(mark)); err != nil {
			return nil, err
		}
	}
	start, _ := b.Peek(b.Size()) // less at the file's end
	c.first, _, _ = strings.Cut(string(start), "\n")
	rd := csv.NewReader(b)
	rd.ReuseRecord = true
	rd.TrimLeadingSpace = true
	if c.opt.Comma != 0 {
		rd.Comma = c.opt.Comma
	}
	return rd, nil
}

// fieldPos is a field's line and column, in bytes from 1.
type fieldPos struct{ line, column int }

// positions appends where the fields of the last record stand.
func positions(rd *csv.Reader, n int, at []fieldPos) []fieldPos {
	for i := range n {
		line, column := rd.FieldPos(i)
		at = append(at, fieldPos{line, column})
	}
	return at
}

func (c *csvFile) wrap(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		if hint := c.otherComma(); hint != "" {
			return blame("delimiter", fmt.Errorf("%w: %s:%d:%d: the quotes do not fit the columns%s", ErrFormat, c.path, p.Line, p.Column, hint))
		}
		return fmt.Errorf("%w: %s:%d:%d: %v", ErrFormat, c.path, p.Line, p.Column, p.Err)
	}
	return fmt.Errorf("%s: %w", c.path, err)
}

// isHeader tells whether the first row names the columns: because it was said
// to, because it has a name that was asked for, because a field that is no
// number stands above one that is, or because it stands alone and has no number.
func (c *csvFile) isHeader(first, second, wanted []string) bool {
	switch c.opt.Header {
	case HeaderYes:
		return true
	case HeaderNo:
		return false
	}
	if second == nil && !slices.ContainsFunc(trimmed(first), isNumber) {
		return true
	}
	for i, name := range trimmed(first) {
		if isNumber(name) {
			continue
		}
		if slices.Contains(c.opt.Labels, name) || slices.Contains(c.opt.Ignore, name) || slices.Contains(wanted, name) {
			return true
		}
		if second != nil && i < len(second) && isNumber(strings.TrimSpace(second[i])) {
			return true
		}
	}
	return false
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

func trimmed(fields []string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = strings.TrimSpace(f)
	}
	return out
}

// choose decides which columns are labels and which are features.
func (c *csvFile) choose(wanted []string) error {
	for i, name := range c.header {
		if slices.Contains(c.header[:i], name) {
			return fmt.Errorf("%w: %s: column name %q appears twice in the header", ErrFormat, c.path, name)
		}
	}
	if wanted != nil {
		if done, err := c.chooseWanted(wanted); done || err != nil {
			return err
		}
	}
	labels := c.opt.Labels
	if len(labels) == 0 {
		labels = []string{"-1"}
	}
	var drop []int
	var err error
	if c.labels, err = c.find("label", "label", labels); err != nil {
		return err
	}
	if drop, err = c.find("ignored", "ignore", c.opt.Ignore); err != nil {
		return err
	}
	for i, j := range drop {
		if slices.Contains(c.labels, j) {
			return blame("ignore", fmt.Errorf("%w: %s: column %q is ignored and is the label, which is the last column unless given: take it off the ignored ones, or give another label",
				ErrSpec, c.path, c.opt.Ignore[i]))
		}
	}
	for i := range c.width {
		if !slices.Contains(c.labels, i) && !slices.Contains(drop, i) {
			c.features = append(c.features, i)
		}
	}
	if err := c.followLike(); err != nil {
		return err
	}
	if len(c.features) == 0 {
		return fmt.Errorf("%w: %s: no feature column is left of %d", ErrFormat, c.path, c.width)
	}
	if wanted != nil {
		c.labels = nil
	}
	return nil
}

// followLike takes, of the columns, a model's features by their names, if both
// have names, and makes sure that there are as many.
func (c *csvFile) followLike() error {
	if c.like == nil {
		return nil
	}
	if c.header != nil && slices.ContainsFunc(c.like, func(name string) bool { return !isNumber(name) }) {
		c.features = nil
		_, err := c.chooseWanted(c.like)
		return err
	}
	if len(c.features) != len(c.like) {
		return fmt.Errorf("%w: %s has %d features, the model was trained on %d", ErrFormat, c.path, len(c.features), len(c.like))
	}
	return nil
}

// chooseWanted takes a model's features: by name if both have names, otherwise
// every column if there are just as many. It reports whether that settled it.
func (c *csvFile) chooseWanted(wanted []string) (bool, error) {
	named := slices.ContainsFunc(wanted, func(name string) bool { return !isNumber(name) })
	if c.header != nil && named {
		for _, name := range wanted {
			i := slices.Index(c.header, name)
			if i < 0 {
				return false, fmt.Errorf("%w: %s lacks the column %q that the model was trained on; it has %s", ErrFormat, c.path, name, c.describe())
			}
			c.features = append(c.features, i)
		}
		return true, nil
	}
	if c.width != len(wanted) {
		return false, nil
	}
	for i := range c.width {
		c.features = append(c.features, i)
	}
	return true, nil
}

// find turns names and numbers into columns.
func (c *csvFile) find(what, key string, names []string) ([]int, error) {
	var found []int
	for _, name := range names {
		i := slices.Index(c.header, name)
		if n, err := strconv.Atoi(name); i < 0 && err == nil {
			if i = n; i < 0 {
				i += c.width
			}
		}
		if i < 0 || i >= c.width {
			return nil, blame(key, fmt.Errorf("%w: %s: there is no %s column %q among %s", ErrSpec, c.path, what, name, c.describe()))
		}
		if slices.Contains(found, i) {
			return nil, blame(key, fmt.Errorf("%w: %s: %s column %q is named twice", ErrSpec, c.path, what, name))
		}
		found = append(found, i)
	}
	return found, nil
}

func (c *csvFile) describe() string {
	if c.header == nil {
		return fmt.Sprintf("%d columns (the file has no header)", c.width)
	}
	return strings.Join(c.header, ", ")
}

// names is the names of columns; those of a file without header are numbers.
func (c *csvFile) names(columns []int) []string {
	names := make([]string, len(columns))
	for i, j := range columns {
		if names[i] = strconv.Itoa(j); c.header != nil {
			names[i] = c.header[j]
		}
	}
	return names
}

// row adds one record.
func (c *csvFile) row(rec []string, at []fieldPos) error {
	for _, j := range c.features {
		v, err := c.number(rec, at, j)
		if err != nil {
			return err
		}
		c.values = append(c.values, v)
	}
	for _, j := range c.labels {
		if c.opt.Task == TaskRegression {
			v, err := c.number(rec, at, j)
			if err != nil {
				return blame("task", err)
			}
			if c.unit && !(v >= 0 && v <= 1) {
				return c.fieldError(at, j, notUnit(v))
			}
			c.targets = append(c.targets, v)
			continue
		}
		name := strings.TrimSpace(rec[j])
		if name == "" {
			return c.fieldError(at, j, "empty label")
		}
		c.classes = append(c.classes, strings.Clone(name))
	}
	c.rows++
	return nil
}

func (c *csvFile) number(rec []string, at []fieldPos, j int) (float32, error) {
	text := strings.TrimSpace(rec[j])
	if text == "" {
		return 0, c.fieldError(at, j, "empty field: fill it in or ignore the column")
	}
	v, err := strconv.ParseFloat(text, 32)
	if err != nil {
		advice := "ignore the column, or name it as the label"
		if slices.Contains(c.labels, j) {
			advice = "the column is the label, and the task is regression: set data.task to " + TaskClassification + " to tell classes apart, or take another column as the label"
		}
		return 0, c.fieldError(at, j, fmt.Sprintf("%.40q is not a number: %s", text, advice))
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, c.fieldError(at, j, fmt.Sprintf("%q is not finite", text))
	}
	return float32(v), nil
}

func (c *csvFile) fieldError(at []fieldPos, j int, msg string) error {
	name := ""
	if c.header != nil {
		name = fmt.Sprintf(" (column %q)", c.header[j])
	}
	return fmt.Errorf("%w: %s:%d:%d%s: %s", ErrFormat, c.path, at[j].line, at[j].column, name, msg)
}

func (c *csvFile) featureColumn() column {
	return newColumn(Field{"input", shape.F32(len(c.features))}, shape.Bytes(c.values))
}
