package configs

import (
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// maxDim is the largest whole number of most keys.
const maxDim = registry.MostWhole

// whole is an int from min to max.
type whole struct{ min, max int }

func (w whole) expect() string { return registry.WholeText(w.min, w.max) }

func (w whole) parse(n *yaml.Node) (int, bool) {
	var v int64
	if n.Kind != yaml.ScalarNode {
		return 0, false
	}
	if f, ok := wholeFloat(n); ok {
		v = int64(f)
	} else if n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		return 0, false
	}
	return int(v), v >= int64(w.min) && v <= int64(w.max)
}

// wholeFloat reads a whole number that is written with a point or an exponent,
// such as 1e3. Beyond 2^53 not every whole number is a float64, and none is read.
func wholeFloat(n *yaml.Node) (f float64, ok bool) {
	if n.ShortTag() != "!!float" || n.Decode(&f) != nil {
		return 0, false
	}
	return f, f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

func (w whole) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, ok := w.parse(n)
	if ok {
		*dst.(*int) = v
		return
	}
	expected := w.expect()
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil && w.max >= maxDim && f > float64(w.max) {
		expected = fmt.Sprintf("a whole number of at most %d", w.max)
	}
	d.mismatch(n, path, expected)
}

func (whole) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.Itoa(*src.(*int)))
}

// orNumber is an int of at least 1, or a word that stands for 0.
type orNumber struct{ word string }

func (o orNumber) expect() string { return o.word + ", or a whole number of at least 1" }

func (o orNumber) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && n.Value == o.word {
		*dst.(*int) = 0
		return
	}
	v, ok := whole{1, maxDim}.parse(n)
	if !ok {
		d.mismatch(n, path, o.expect())
		return
	}
	*dst.(*int) = v
}

func (o orNumber) encode(src any, keep func(*key) bool) *yaml.Node {
	if *src.(*int) == 0 {
		return plain(o.word)
	}
	return whole{}.encode(src, keep)
}

// seed is a uint64.
type seed struct{}

func (seed) expect() string { return "a whole number from 0 to 2^64-1" }

func (s seed) decode(d *decoder, n *yaml.Node, path string, dst any) {
	var v uint64
	f, ok := wholeFloat(n)
	switch {
	case ok && f >= 0:
		v = uint64(f)
	case n.Kind != yaml.ScalarNode, n.ShortTag() != "!!int", n.Decode(&v) != nil:
		d.mismatch(n, path, s.expect())
		return
	}
	*dst.(*uint64) = v
}

func (seed) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.FormatUint(*src.(*uint64), 10))
}

// real is a finite float64 from min to max.
type real struct {
	min, max float64
	over     bool // min itself is refused
	under    bool // max itself is refused
}

func (r real) expect() string {
	if r.max == math.MaxFloat64 && r.min == -math.MaxFloat64 {
		return "a number"
	}
	low, high := "of at least", "at most"
	if r.over {
		low = "above"
	}
	if r.under {
		high = "below"
	}
	s := fmt.Sprintf("a number %s %v", low, r.min)
	if r.max == math.MaxFloat64 {
		return s
	}
	return s + fmt.Sprintf(" and %s %v", high, r.max)
}

func (r real) parse(n *yaml.Node) (float64, bool) {
	tag := n.ShortTag()
	var v float64
	if n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" || n.Decode(&v) != nil {
		return 0, false
	}
	in := v >= r.min && v <= r.max && !(r.over && v == r.min) && !(r.under && v == r.max)
	return v, in // NaN compares false
}

func (r real) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, ok := r.parse(n)
	if !ok {
		d.mismatch(n, path, r.expect())
		return
	}
	*dst.(*float64) = v
}

func (real) encode(src any, _ func(*key) bool) *yaml.Node { return float(*src.(*float64)) }

// pair is a list of two numbers.
type pair struct{ each real }

func (p pair) expect() string {
	return "a list of two numbers, each " + p.each.expect()[len("a number "):]
}

func (p pair) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		d.mismatch(n, path, p.expect())
		return
	}
	for i, c := range n.Content {
		p.each.decode(d, c, fmt.Sprintf("%s[%d]", path, i), &dst.(*[2]float64)[i])
	}
}

func (p pair) encode(src any, _ func(*key) bool) *yaml.Node {
	v := src.(*[2]float64)
	return flow(float(v[0]), float(v[1]))
}

// ints is a list of whole numbers.
type ints struct {
	each whole
	some bool // an empty list is refused
}

func (l ints) expect() string {
	if l.some {
		return "a list of at least one, each " + l.each.expect()
	}
	return "a list, each item " + l.each.expect()
}

func (l ints) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || l.some && len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]int, len(n.Content))
	for i, c := range n.Content {
		l.each.decode(d, c, fmt.Sprintf("%s[%d]", path, i), &out[i])
	}
	*dst.(*[]int) = out
}

func (ints) encode(src any, _ func(*key) bool) *yaml.Node {
	out := flow()
	for _, v := range *src.(*[]int) {
		out.Content = append(out.Content, plain(strconv.Itoa(v)))
	}
	return out
}

// wordOr is an int, or a word that stands for one of its own.
type wordOr struct {
	word   string
	is     int
	number whole
}

func (w wordOr) expect() string { return w.number.expect() + ", or " + w.word }

func (w wordOr) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && n.Value == w.word {
		*dst.(*int) = w.is
		return
	}
	v, ok := w.number.parse(n)
	if !ok {
		d.mismatch(n, path, w.expect())
		return
	}
	*dst.(*int) = v
}

func (w wordOr) encode(src any, keep func(*key) bool) *yaml.Node {
	if *src.(*int) == w.is {
		return plain(w.word)
	}
	return whole{}.encode(src, keep)
}
