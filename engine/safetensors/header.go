package safetensors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/berth-ml/berth/engine/shape"
)

// The causes of errors.
var (
	ErrFormat   = errors.New("not a valid safetensors file")
	ErrNotFound = errors.New("no such tensor")
	ErrConvert  = errors.New("cannot convert tensor")
	ErrFinite   = errors.New("a weight is not finite")
)

const (
	lengthBytes = 8
	maxHeader   = 100 << 20 // the format's own limit
	maxTensors  = 1 << 18   // the largest models in use have less than half as many
	metadataKey = "__metadata__"

	unknownBytes = -1 // of contents whose size only reading them tells
)

// Tensor is one tensor of a file, as the header describes it.
type Tensor struct {
	Name       string
	DType      DType
	Shape      shape.Shape
	begin, end int64 // within the data that follows the header
	part       int   // the file that has it
}

// Bytes is the size of the contents, in bytes.
func (t Tensor) Bytes() int64 { return t.end - t.begin }

// String is "fc.weight F32[10,64]".
func (t Tensor) String() string { return fmt.Sprintf("%s %s%v", t.Name, t.DType, t.Shape) }

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// parseHeader reads the tensors, sorted by offset, and the metadata from a header
// that describes dataBytes of contents. ctx ends reading it.
func parseHeader(ctx context.Context, header []byte, dataBytes int64) ([]Tensor, map[string]string, error) {
	if err := checkBegin(header); err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(header) {
		return nil, nil, bad("the header is not UTF-8")
	}
	p := parser{ctx: ctx, dec: json.NewDecoder(bytes.NewReader(header))}
	p.dec.UseNumber()
	var tensors []Tensor
	var metadata map[string]string
	seen := map[string]bool{}
	err := p.object("header", func(name string) (err error) {
		if seen[name] {
			return bad("%q appears twice in the header", name)
		}
		if seen[name] = true; len(seen) > maxTensors+1 {
			return bad("the header has more than %d tensors", maxTensors)
		}
		if name == metadataKey {
			metadata, err = p.metadata()
			return err
		}
		t, err := p.tensor(name)
		tensors = append(tensors, t)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, nil, bad("text after the header's object")
	}
	return tensors, metadata, checkOffsets(tensors, dataBytes)
}

// checkOffsets sorts tensors by offset, and checks that they fill the data exactly:
// none overlaps another, and each byte belongs to one.
func checkOffsets(tensors []Tensor, dataBytes int64) error {
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	if dataBytes == unknownBytes {
		dataBytes = 0
		if n := len(tensors); n > 0 {
			dataBytes = tensors[n-1].end
		}
	}
	at := int64(0)
	for _, t := range tensors {
		switch {
		case t.begin < at:
			return bad("tensor %q at byte %d overlaps the one that ends at byte %d", t.Name, t.begin, at)
		case t.begin > at:
			return bad("bytes %d to %d before tensor %q belong to no tensor", at, t.begin, t.Name)
		case t.end > dataBytes:
			return bad("tensor %q ends at byte %d of %d: the file is cut off; copy or save it again", t.Name, t.end, dataBytes)
		}
		at = t.end
	}
	if at != dataBytes {
		return bad("the tensors take %d bytes but the file holds %d after its header: copy or save it again", at, dataBytes)
	}
	return nil
}

// checkBegin refuses a header that is no object.
func checkBegin(header []byte) error {
	if len(header) == 0 || header[0] != '{' {
		return bad("the header does not begin with '{'")
	}
	return nil
}

// parser reads the header token by token. Decoding into a map would miss repeated
// keys, and decoding into a struct would ignore the case of keys.
type parser struct {
	ctx context.Context
	dec *json.Decoder
}

// object calls field for every key of an object. field must consume the value.
func (p *parser) object(what string, field func(key string) error) error {
	if err := p.delim('{', what); err != nil {
		return err
	}
	for p.dec.More() {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		tok, err := p.dec.Token()
		if err != nil {
			return bad("%s: %v", what, err)
		}
		key, ok := tok.(string)
		if !ok {
			return bad("%s: %v is not a key", what, tok)
		}
		if err := field(key); err != nil {
			return err
		}
	}
	return p.delim('}', what)
}

func (p *parser) delim(want json.Delim, what string) error {
	tok, err := p.dec.Token()
	if err != nil {
		return bad("%s: %v", what, err)
	}
	if tok != want {
		return bad("%s: %q expected, found %v", what, want.String(), tok)
	}
	return nil
}

func (p *parser) text(what string) (string, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return "", bad("%s: %v", what, err)
	}
	s, ok := tok.(string)
	if !ok {
		return "", bad("%s is %v, not a string", what, tok)
	}
	return s, nil
}

// mostNumbers is more than a shape has dimensions, and than there are offsets.
const mostNumbers = 64

// numbers reads an array of non-negative integers that fit an int64.
func (p *parser) numbers(what string) ([]int64, error) {
	if err := p.delim('[', what); err != nil {
		return nil, err
	}
	list := []int64{}
	for p.dec.More() {
		if len(list) == mostNumbers {
			return nil, bad("%s holds more than %d numbers", what, mostNumbers)
		}
		tok, err := p.dec.Token()
		if err != nil {
			return nil, bad("%s: %v", what, err)
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, bad("%s holds %v, not a number", what, tok)
		}
		v, err := num.Int64()
		if err != nil || v < 0 {
			return nil, bad("%s holds %s, not a whole number from 0", what, num)
		}
		list = append(list, v)
	}
	return list, p.delim(']', what)
}

func (p *parser) metadata() (map[string]string, error) {
	m := map[string]string{}
	err := p.object(metadataKey, func(key string) error {
		if _, dup := m[key]; dup {
			return bad("metadata key %q appears twice", key)
		}
		v, err := p.text("metadata " + key)
		m[key] = v
		return err
	})
	return m, err
}

func (p *parser) tensor(name string) (Tensor, error) {
	t := Tensor{Name: name, begin: -1}
	var dims []int64
	err := p.object("tensor "+name, func(key string) (err error) {
		switch {
		case key == "dtype" && t.DType == "":
			var s string
			s, err = p.text("dtype of tensor " + name)
			t.DType = DType(s)
		case key == "shape" && dims == nil:
			dims, err = p.numbers("shape of tensor " + name)
		case key == "data_offsets" && t.begin < 0:
			var at []int64
			if at, err = p.numbers("data_offsets of tensor " + name); err == nil && len(at) != 2 {
				err = bad("tensor %q has %d data_offsets, not 2", name, len(at))
			}
			if err == nil {
				t.begin, t.end = at[0], at[1]
			}
		default:
			err = bad("tensor %q: key %q is unknown or repeated", name, key)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	return t, t.complete(dims)
}

// complete checks that no key is missing, and that shape, type and size agree.
func (t *Tensor) complete(dims []int64) error {
	if t.DType == "" || dims == nil || t.begin < 0 {
		return bad("tensor %q lacks dtype, shape or data_offsets", t.Name)
	}
	if t.DType.Size() == 0 {
		return bad("tensor %q has the unknown dtype %.40q", t.Name, t.DType)
	}
	t.Shape = make(shape.Shape, len(dims))
	for i, d := range dims {
		if d > math.MaxInt/8 {
			return bad("tensor %q: dimension %d is too large", t.Name, d)
		}
		t.Shape[i] = int(d)
	}
	if err := t.Shape.Validate(); err != nil {
		return bad("tensor %q: %v", t.Name, err)
	}
	if want := int64(t.Shape.Elems()) * int64(t.DType.Size()); t.end < t.begin || t.end-t.begin != want {
		return bad("tensor %v needs %d bytes, data_offsets [%d,%d] give %d", t, want, t.begin, t.end, t.end-t.begin)
	}
	return nil
}
