package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/shape"
)

// samples reads the samples of a request.
type samples struct {
	scanner
	info   *datasets.Info
	most   int // samples
	top    int // of a pixel in the files, by which pixels are divided; 0: numbers are no pixels
	n      int
	floats []float32
	ids    []int32
	ends   []int // in positions, of samples with different lengths
	rows   *rows // of a table; nil until the first row

	pictures *pictureReader // of a model of images
}

// readSamples reads "inputs" of a request: a list of samples, at most most. The caller has
// found memory for expected ones, and there are no more than these.
func readSamples(ctx context.Context, inputs []byte, info *datasets.Info, top, most, expected int, pictures *pictureReader) (*tensor.Dense, error) {
	x := &samples{scanner: scanner{b: inputs, field: "inputs"}, info: info, top: top, most: most, pictures: pictures}
	x.makeRoom(expected)
	if len(inputs) == 0 {
		return nil, bad("inputs", `it is missing: send {"inputs": [sample, …]}, where a sample is %s`, sampleText(info, top))
	}
	err := x.list(func(i int) error {
		if x.n = i + 1; x.n > most {
			return beyond("inputs", "a request has at most %d samples: send several requests", most)
		}
		return x.sample(ctx)
	})
	if err != nil {
		return nil, err
	}
	if x.n == 0 {
		return nil, bad("inputs", "the list is empty: send samples, each %s", sampleText(info, top))
	}
	m := info.Inputs[0].Meta
	dims := append([]int{x.n}, m.Shape...)
	if info.Buckets != nil {
		return x.padded(), nil
	}
	if m.DType == shape.Int32 {
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x.ids)), nil
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x.floats)), nil
}

// makeRoom makes room for all numbers at once. There is a comma between two, but for the
// features of a table's row: one value may give several.
func (x *samples) makeRoom(samples int) {
	m := x.info.Inputs[0].Meta
	n := samples * m.Elems()
	if x.info.Columns == nil {
		n = min(n, 1+bytes.Count(x.b, []byte{','}))
	}
	if m.DType == shape.Int32 {
		x.ids = make([]int32, 0, n)
	} else {
		x.floats = make([]float32, 0, n)
	}
}

// padded is sequences of different lengths, with padding behind their positions.
func (x *samples) padded() *tensor.Dense {
	most, m := 0, x.info.Inputs[0].Meta
	for i, end := range x.ends {
		most = max(most, end-x.begin(i))
	}
	dims := append([]int{x.n, most}, m.Shape[1:]...)
	per := m.Elems() / m.Shape[0]
	if m.DType == shape.Int32 {
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(paddedRows(x, x.ids, most, per, datasets.Padding)))
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(paddedRows(x, x.floats, most, per, float32(math.NaN()))))
}

// paddedRows has so many positions for each sample, of per elements.
func paddedRows[T int32 | float32](x *samples, elements []T, most, per int, padding T) []T {
	out := make([]T, x.n*most*per)
	for i, end := range x.ends {
		row := out[i*most*per : (i+1)*most*per]
		for k := copy(row, elements[x.begin(i)*per:end*per]); k < len(row); k++ {
			row[k] = padding
		}
	}
	return out
}

// begin is the first position of sample i of different lengths.
func (x *samples) begin(i int) int {
	if i == 0 {
		return 0
	}
	return x.ends[i-1]
}

// sequence reads one sample of any length: a line of text, or a list of the ids of tokens or
// of the numbers of each position.
func (x *samples) sequence(ctx context.Context) error {
	n, m := 0, x.info.Inputs[0].Meta
	if x.next() == '"' && x.info.Tokenizer != nil {
		var line string
		if err := json.Unmarshal(x.token(), &line); err != nil {
			return bad(x.where(), "the text cannot be read: %v", err)
		}
		ids, count, err := x.info.LineTokens(ctx, line, m.Shape[0])
		if err != nil {
			return bad(x.where(), "the text has no tokens: %v", err)
		}
		x.ids, n = append(x.ids, ids...), count
	} else if err := x.list(func(int) error {
		if n++; n > m.Shape[0] { // it is refused: the rest is counted alone
			x.skip()
			return nil
		}
		return x.elements(m.Shape[1:])
	}); err != nil {
		return err
	}
	switch most := m.Shape[0]; {
	case n == 0 && x.info.Tokenizer != nil:
		return bad(x.where(), "it has no tokens: send a text, or a list of 1 to %d ids", most)
	case n == 0:
		return bad(x.where(), "it has no positions: send a list of 1 to %d", most)
	case n > most && x.info.Chats:
		return bad(x.where(), "the conversation has %d tokens, and the model reads 1 to %d (data.context): shorten it", n, most)
	case n > most && x.info.Tokenizer != nil:
		return bad(x.where(), "it has %d tokens, with the one that begins a line, and the model reads 1 to %d (data.buckets): shorten it", n, most)
	case n > most:
		return bad(x.where(), "it has %d positions, and the model reads 1 to %d: shorten it", n, most)
	}
	x.ends = append(x.ends, x.begin(len(x.ends))+n)
	return nil
}

// elements reads ids or numbers of a shape.
func (x *samples) elements(s shape.Shape) error {
	if x.info.Inputs[0].Meta.DType == shape.Int32 {
		return x.numbers(s, func(number []byte) error {
			v, err := x.id(number)
			x.ids = append(x.ids, v)
			return err
		})
	}
	return x.numbers(s, func(number []byte) error {
		v, err := x.float(number)
		if err == nil && x.top > 0 && !(v >= leastPixel && v <= mostPixel) {
			err = bad(x.where(), "%.40s is no pixel: send a number from 0 to 1, which is a pixel from 0 to %d divided by %d", number, x.top, x.top)
		}
		x.floats = append(x.floats, v)
		return err
	})
}

// sample reads one sample.
func (x *samples) sample(ctx context.Context) error {
	if x.info.Buckets != nil {
		return x.sequence(ctx)
	}
	m := x.info.Inputs[0].Meta
	if x.first() == ']' {
		return bad(x.where(), "it is empty: send %s", sampleText(x.info, x.top))
	}
	switch c := x.next(); {
	case c == '"' && x.info.Tokenizer != nil:
		return x.text(ctx)
	case c == '"' && x.info.Pictures != nil:
		return x.picture(ctx)
	case x.info.Columns != nil, c == '{' && len(x.info.Features) > 0:
		if c != '{' && c != '[' {
			return bad(x.where(), "this is %s: send an object or a list", x.what())
		}
		return x.row()
	}
	if x.info.Pictures == nil {
		return x.elements(m.Shape)
	}
	from := len(x.floats)
	err := x.elements(m.Shape)
	if err == nil {
		x.info.Pictures.Standardise(x.floats[from:])
	}
	return err
}

// id reads a token's id.
func (x *samples) id(number []byte) (int32, error) {
	v, err := strconv.ParseInt(string(number), 10, 32)
	if err != nil || v < 0 || v >= int64(x.info.Tokens) {
		return 0, bad(x.where(), "%.40s is no id: send a whole number from 0 to %d", number, x.info.Tokens-1)
	}
	return int32(v), nil
}

// text reads a sample of text, which must have as many tokens as the model reads.
func (x *samples) text(ctx context.Context) error {
	var text string
	if err := json.Unmarshal(x.token(), &text); err != nil {
		return bad(x.where(), "the text cannot be read: %v", err)
	}
	want := x.info.Inputs[0].Meta.Elems()
	ids, n, err := tokenizer.End(ctx, x.info.Tokenizer, text, want)
	if err != nil {
		return bad(x.where(), "the text has no tokens: %v", err)
	}
	if n != want {
		return bad(x.where(), "the text has %d tokens, and the model reads %d: POST /generate continues texts of other lengths", n, want)
	}
	for _, id := range ids {
		x.ids = append(x.ids, int32(id))
	}
	return nil
}

// Pixels are from 0 to 1, and some percent beyond where a client has resized an image. These bounds find those that are on another
// scale.
const leastPixel, mostPixel = -0.5, 1.5

// pixelTop is the largest number that a source of images has for a pixel; 0 for other data. Samples are divided by it.
func pixelTop(source string) int {
	switch source {
	case "digits":
		return 16
	case "mnist", "images":
		return 255
	}
	return 0
}

// sampleText words the samples that a model takes; top is that of their pixels, 0 where they have none.
func sampleText(info *datasets.Info, top int) string {
	m := info.Inputs[0].Meta
	dims := strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(m.Shape)), " ", ", "), "[]")
	switch {
	case info.Columns != nil:
		return fmt.Sprintf("an object with the columns %s, or a list of their values in this order", listed(info.Columns.ColumnNames()))
	case len(info.Features) > 0:
		return fmt.Sprintf("an object with the features %s, or a list of these %d numbers", listed(info.Features), len(info.Features))
	case info.Buckets != nil && info.Tokenizer == nil && m.DType == shape.Int32:
		return fmt.Sprintf("a list of 1 to %d ids from 0 to %d", m.Shape[0], info.Tokens-1)
	case info.Buckets != nil && info.Tokenizer == nil:
		return fmt.Sprintf("a list of 1 to %d positions, each a list of %d numbers", m.Shape[0], m.Elems()/m.Shape[0])
	case info.Chats:
		return fmt.Sprintf("a text as the chat template makes it, or a list of its ids, of up to %d tokens", m.Elems())
	case info.Buckets != nil:
		return fmt.Sprintf("a line of text, or a list of ids, of up to %d tokens with the one that begins a line", m.Elems())
	case info.Tokenizer != nil:
		return fmt.Sprintf("a text of %d tokens, or a list of their ids", m.Elems())
	case m.DType == shape.Int32:
		return fmt.Sprintf("a list of %s ids from 0 to %d", dims, info.Tokens-1)
	case info.Pictures != nil:
		return fmt.Sprintf("the bytes of an image (PNG, JPEG, GIF or WebP) in base64, or a list of %d %s, or nested lists of shape [%s]", m.Elems(), pixelText(top), dims)
	case top > 0:
		return fmt.Sprintf("a list of %d %s, or nested lists of shape [%s]", m.Elems(), pixelText(top), dims)
	case m.Shape.Rank() > 1:
		return fmt.Sprintf("a list of %d numbers, or nested lists of shape [%s]", m.Elems(), dims)
	}
	return fmt.Sprintf("a list of %d numbers", m.Elems())
}

// pixelText words the numbers of a sample whose pixels are divided by top.
func pixelText(top int) string {
	return fmt.Sprintf("pixels from 0 to 1 (those from 0 to %d, divided by %d)", top, top)
}

// answerText words the answers that a model gives.
func answerText(info *datasets.Info) string {
	switch {
	case info.Tokenizer != nil && info.ClassNames == nil:
		return fmt.Sprintf("the likeliest next token (class), its text (label), and the probability of each of %d tokens (values)", info.Classes)
	case info.Classes > 0 && info.ClassNames != nil:
		return fmt.Sprintf("the likeliest class, its name (label), and the probability of each class (values): %s", listed(info.ClassNames))
	case info.Classes > 0:
		return fmt.Sprintf("the likeliest class and the probability of each of %d classes (values)", info.Classes)
	}
	if t := info.Target.Meta; info.Buckets != nil && datasets.PerPosition(t) {
		return fmt.Sprintf("values: %d numbers for each position", t.Elems()/t.Shape[0])
	}
	if info.TargetNames != nil {
		return fmt.Sprintf("a number for each label (labels), and these numbers as a list (values): %s", listed(info.TargetNames))
	}
	if n := info.Target.Meta.Elems(); n > 1 {
		return fmt.Sprintf("values: %d numbers in the unit of the data", n)
	}
	return "values: a number in the unit of the data"
}

// mostListed is how many names listed lists.
const mostListed = 16

// listed lists names, the first of them where there are many.
func listed(names []string) string {
	text := short(strings.Join(names[:min(mostListed, len(names))], ", "))
	if more := len(names) - mostListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// short cuts a text to a line.
func short(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
