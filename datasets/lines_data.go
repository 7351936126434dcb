package datasets

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// openLines reads the lines of a text, or the texts of JSON lines, as samples of different
// lengths. A sample begins with the token that ends the line before it. With a label its
// target is a class; otherwise it is the sample one token later.
func openLines(ctx context.Context, s Spec) (*Dataset, error) {
	c, err := s.lineCorpus(s.textPaths()...)
	if err != nil {
		return nil, err
	}
	t, _, err := c.tokenizer(ctx, s)
	if err != nil {
		return nil, err
	}
	r, err := c.readLines(ctx, s, t)
	if err != nil {
		return nil, err
	}
	ds, err := splitOrWhole(s, func(fraction float64) (*Dataset, error) { return r.dataset(ctx, s, t, fraction) })
	if err != nil {
		return nil, err
	}
	ds.Notes = append(c.notes(), r.notes(s)...)
	return ds, nil
}

// linesInputs reads lines to predict from.
func linesInputs(ctx context.Context, s Spec, info *Info, path string) (*table, error) {
	if info.Tokenizer == nil {
		return nil, fmt.Errorf("%w: the model was not trained on text: use the source that it was trained on", ErrSpec)
	}
	s.Like, s.Lines.Label, s.Path, s.Text.More = info, "", path, nil
	c, err := s.lineCorpus(path)
	if err != nil {
		return nil, err
	}
	r, err := c.readLines(ctx, s, info.Tokenizer)
	if err != nil {
		return nil, err
	}
	for _, text := range append(c.notes(), r.notes(s)...) {
		s.note(text)
	}
	return sequenceTable(r.sequences(false)), nil
}

// lineCorpus lists the files of lines.
func (s Spec) lineCorpus(paths ...string) (*corpus, error) {
	if err := checkBuckets(s.Lines.Buckets); err != nil {
		return nil, err
	}
	if s.Lines.Label != "" && s.Text.Field == "" {
		return nil, blame("label", fmt.Errorf("%w: label %s is a key of JSON lines: set data.field to the key of their text, too", ErrSpec, s.Lines.Label))
	}
	c, err := openCorpus(s, paths...)
	if err == nil {
		c.byLine, c.label = true, s.Lines.Label
	}
	return c, err
}

// lineReader collects the samples of lines.
type lineReader struct {
	lineRows
	options LineOptions
	path    string
	memory  int64
	classOf map[string]int32
	names   []string // of the classes
	cut     int      // samples that were cut off
	longest int      // positions of the longest of them
	like    bool     // the classes are those of training
}

// encodedLine is a line's tokens, with its place.
type encodedLine struct {
	ids    []uint32
	label  string
	number int
}

// newLineReader has no sample yet. end is the token that ends a line.
func newLineReader(s Spec, t tokenizer.Tokenizer, end []uint32) *lineReader {
	r := &lineReader{options: s.Lines, path: s.textFiles(), memory: s.Memory, classOf: map[string]int32{},
		lineRows: lineRows{ids: textIDs{width: idWidth(t.Len())}, begins: []int64{0}}}
	r.ids.data = appendIDs(nil, r.ids.width, end)
	if s.Like != nil {
		r.like, r.names = true, s.Like.ClassNames
		for i, name := range r.names {
			r.classOf[name] = int32(i)
		}
	}
	return r
}

// readLines reads the samples of a corpus.
func (c *corpus) readLines(ctx context.Context, s Spec, t tokenizer.Tokenizer) (*lineReader, error) {
	if t.Len() == 0 {
		return nil, errNoLine(s.textFiles())
	}
	end, err := endOfLine(ctx, t)
	if err != nil {
		return nil, err
	}
	c.anyBytes = t.Kind() == "bytes"
	r := newLineReader(s, t, end)
	type piece struct {
		path  string
		lines []encodedLine
	}
	err = each(ctx, c, "tokenizing", wholeLines, func(p textPiece) (piece, error) {
		out := piece{path: p.path}
		err := c.eachLine(p, func(number int, text []byte, label string) error {
			ids, err := t.Encode(ctx, nil, text)
			out.lines = append(out.lines, encodedLine{ids, label, number})
			return err
		})
		return out, err
	}, func(p piece) error {
		for _, l := range p.lines {
			if err := r.add(p.path, l, end[0]); err != nil {
				return err
			}
		}
		return fits(r.path, int64(len(r.ids.data)+8*len(r.begins)+4*len(r.labels)), r.memory)
	})
	if err == nil && len(r.begins) == 1 {
		err = errNoLine(r.path)
	}
	if err == nil && !r.like && s.Lines.Label != "" {
		r.sortClasses()
	}
	return r, err
}

func errNoLine(path string) error {
	return fmt.Errorf("%w: %s has no line with text: name a text to read", ErrTooFew, path)
}

// most is the positions of the largest bucket.
func (r *lineReader) most() int { return r.options.Buckets[len(r.options.Buckets)-1] }

// sequences are the samples, with or without targets.
func (r *lineReader) sequences(targets bool) *sequences {
	s := &sequences{of: &r.lineRows, buckets: r.options.Buckets, input: shape.I32(r.most())}
	switch {
	case targets && r.labels != nil:
		s.target = shape.I32()
	case targets:
		s.target = s.input
	}
	return s
}

// endOfLine is the token that ends a line.
func endOfLine(ctx context.Context, t tokenizer.Tokenizer) ([]uint32, error) {
	if id, ok := t.EndOfText(); ok {
		return []uint32{id}, nil
	}
	ids, err := t.EncodeRest(ctx, nil, []byte("\n"))
	if err != nil || len(ids) != 1 {
		return nil, blame("tokenizer", fmt.Errorf("%w: the tokenizer has no token for the end of a line: use another data.tokenizer", ErrSpec))
	}
	return ids, nil
}

// LineTokens are the tokens of a line as a sample of lines has them, with the one that
// begins it, and their number n. Beyond most tokens, only n is given.
func (i *Info) LineTokens(ctx context.Context, text string, most int) (tokens []int32, n int, err error) {
	var begin []uint32
	if !i.Chats {
		if begin, err = endOfLine(ctx, i.Tokenizer); err != nil {
			return nil, 0, err
		}
	}
	ids, n, err := tokenizer.End(ctx, i.Tokenizer, text, most)
	if n += len(begin); err != nil || n > most {
		return nil, n, err
	}
	for _, id := range append(begin, ids...) {
		tokens = append(tokens, int32(id))
	}
	return tokens, n, nil
}

// add adds a line, with the token that ends it.
func (r *lineReader) add(path string, l encodedLine, end uint32) error {
	most := r.most()
	if n := len(l.ids) + 1; n > most {
		if !r.options.Truncate {
			cure := "raise data.buckets or data.context"
			if r.like {
				cure = "shorten it"
			}
			return blame("buckets", fmt.Errorf("%w: %s:%d: the line has %d tokens with the one that begins it, and the largest of data.buckets is %d: %s, or cut long lines off with data.truncate: true", ErrFormat, path, l.number, n, most, cure))
		}
		r.cut, r.longest = r.cut+1, max(r.longest, n)
		l.ids = l.ids[:most-1]
	}
	if r.options.Label != "" {
		class, known := r.classOf[l.label]
		switch {
		case known:
		case r.like:
			return fmt.Errorf("%w: %s:%d: the class %.40q is none of the %d that the model was trained on: take the line out", ErrFormat, path, l.number, l.label, len(r.names))
		case len(r.names) == mostClasses:
			return blame("label", fmt.Errorf("%w: %s:%d: there are more than %d classes: take another key as the label", ErrFormat, path, l.number, mostClasses))
		default:
			class = int32(len(r.names))
			r.classOf[l.label], r.names = class, append(r.names, l.label)
		}
		r.labels = append(r.labels, class)
	}
	r.ids.data = appendIDs(appendIDs(r.ids.data, r.ids.width, l.ids), r.ids.width, []uint32{end})
	r.begins = append(r.begins, r.begins[len(r.begins)-1]+int64(len(l.ids))+1)
	return nil
}

// sortClasses numbers the classes in the order of their names.
func (r *lineReader) sortClasses() {
	sorted := slices.Sorted(slices.Values(r.names))
	number := make([]int32, len(sorted))
	for i, name := range sorted {
		number[r.classOf[name]] = int32(i)
	}
	for i, class := range r.labels {
		r.labels[i] = number[class]
	}
	r.names = sorted
}

// notes say how the samples are other than a user may expect.
func (r *lineReader) notes(s Spec) []string {
	if r.cut == 0 {
		return nil
	}
	return []string{fmt.Sprintf("data.truncate: %s of %s are cut off at %s; the longest has %s", units.Thousands(r.cut), units.Count(len(r.begins)-1, "line"), units.Count(r.most(), "token"), units.Thousands(r.longest))}
}

// dataset makes the dataset of the lines, a fraction of them for training.
func (r *lineReader) dataset(ctx context.Context, s Spec, t tokenizer.Tokenizer, fraction float64) (*Dataset, error) {
	samples := r.sequences(true)
	table := sequenceTable(samples)
	var keys *rowKeys
	if r.labels != nil {
		keys = &rowKeys{classes: r.labels, class: func(class int32) string { return r.names[class] }}
	}
	ds := &Dataset{Name: "lines " + s.textFiles()}
	if err := ds.split(table, s, fraction, keys); err != nil {
		return nil, err
	}
	print, err := fingerprint(ctx, s, []any{t.Hash(), r.names}, table)
	if err != nil {
		return nil, err
	}
	ds.Info = Info{
		Inputs: []Field{{"input", samples.input}, lengthField}, Target: Field{"target", samples.target},
		Classes: t.Len(), Tokens: t.Len(), Tokenizer: t, Buckets: samples.buckets, Fingerprint: print,
	}
	if r.labels != nil {
		ds.Info.Classes, ds.Info.ClassNames = len(r.names), r.names
		if len(r.names) < 2 {
			return nil, blame("label", fmt.Errorf("%w: %s is %q on every line: take a key with several values as the label", ErrFormat, s.Lines.Label, r.names[0]))
		}
	}
	return ds, nil
}

// lineRows are the samples of lines, one after the other.
type lineRows struct {
	ids    textIDs
	begins []int64 // position in ids of each sample's first token, and of the end of the last one
	labels []int32 // class of each sample; nil: the targets are the next tokens
}

func (r *lineRows) rows() int { return len(r.begins) - 1 }

func (r *lineRows) bytes() int64 { return int64(len(r.ids.data) + 8*len(r.begins) + 4*len(r.labels)) }

func (r *lineRows) length(row int) int { return int(r.begins[row+1] - r.begins[row]) }

// write writes a sample, whose targets are one token later.
func (r *lineRows) write(s Sample, input, target []byte) error {
	from := int(r.begins[s.Index])
	r.tokens(shape.View[int32](input), from)
	switch {
	case target == nil:
	case r.labels == nil:
		r.tokens(shape.View[int32](target), from+1)
	default:
		shape.View[int32](target)[0] = r.labels[s.Index]
	}
	return nil
}

// tokens writes the ids from a position on.
func (r *lineRows) tokens(dst []int32, from int) {
	for i := range dst {
		dst[i] = r.ids.at(from + i)
	}
}

func (r *lineRows) hash(ctx context.Context, buckets []int, w io.Writer) error {
	fmt.Fprintf(w, "sequences in %v, labels %v\n", buckets, r.labels != nil)
	w.Write(shape.Bytes(r.begins))
	w.Write(shape.Bytes(r.labels))
	return r.ids.writeTo(ctx, w)
}
