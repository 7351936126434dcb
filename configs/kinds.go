package configs

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDim bounds every size that a config can ask for.
const maxDim = math.MaxInt32

// A kind is a type of value: how it is read, written and described.
type kind interface {
	// decode checks the node and stores it in *dst, or reports what is wrong.
	decode(d *decoder, n *yaml.Node, path string, dst any)
	// encode gives the node that decode turns into the same value.
	encode(src any, keep func(*key) bool) *yaml.Node
	// expect describes the values, as in "expected a whole number".
	expect() string
}

// whole is an int from min to max.
type whole struct{ min, max int }

func (w whole) expect() string {
	switch {
	case w.max < maxDim:
		return fmt.Sprintf("a whole number from %d to %d", w.min, w.max)
	default:
		return fmt.Sprintf("a whole number of at least %d", w.min)
	}
}

func (w whole) parse(n *yaml.Node) (int, bool) {
	var v int64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		return 0, false
	}
	return int(v), v >= int64(w.min) && v <= int64(w.max)
}

func (w whole) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, ok := w.parse(n)
	if ok {
		*dst.(*int) = v
		return
	}
	expected := w.expect()
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil && f > float64(w.max) {
		expected = fmt.Sprintf("a whole number of at most %d", w.max)
	}
	d.mismatch(n, path, expected)
}

func (whole) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.Itoa(*src.(*int)))
}

// seed is a uint64.
type seed struct{}

func (seed) expect() string { return "a whole number from 0 to 2^64-1" }

func (s seed) decode(d *decoder, n *yaml.Node, path string, dst any) {
	var v uint64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		d.mismatch(n, path, s.expect())
		return
	}
	*dst.(*uint64) = v
}

func (seed) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.FormatUint(*src.(*uint64), 10))
}

// real is a finite float64 of an interval.
type real struct {
	min, max float64
	over     bool // min itself is out
	under    bool // max itself is out
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

// pair is two numbers, each of the interval.
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

// ints is a list of ints, each of the range.
type ints struct {
	each whole
	some bool // an empty list is refused
}

func (l ints) expect() string {
	if l.some {
		return "a list of at least one, each " + l.each.expect()
	}
	return "a list, each " + l.each.expect()
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

// boolean is true or false.
type boolean struct{}

func (boolean) expect() string { return "true or false" }

func (b boolean) decode(d *decoder, n *yaml.Node, path string, dst any) {
	var v bool
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&v) != nil {
		d.mismatch(n, path, b.expect())
		return
	}
	*dst.(*bool) = v
}

func (boolean) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.FormatBool(*src.(*bool)))
}

// text is a string, of a pattern if there is one.
type text struct {
	what    string // "a name of letters and digits"
	pattern *regexp.Regexp
	bare    bool // a number needs no quotes
	tab     bool // \t is a tab also without quotes, which flags and variables do not have
}

func (t text) expect() string { return t.what }

func (t text) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if t.tab && n.Kind == yaml.ScalarNode && n.Value == `\t` {
		*dst.(*string) = "\t"
		return
	}
	typed := n.ShortTag() == "!!str" || d.origin[n] != "" || t.bare && n.ShortTag() == "!!int"
	if n.Kind != yaml.ScalarNode || !typed || t.pattern != nil && !t.pattern.MatchString(n.Value) {
		d.mismatch(n, path, t.what)
		return
	}
	*dst.(*string) = n.Value
}

func (text) encode(src any, _ func(*key) bool) *yaml.Node { return str(*src.(*string)) }

// enum is one of a few words.
type enum []string

func (e enum) expect() string { return "one of " + strings.Join(e, ", ") }

// expectNear adds the nearest word, in place of the others where they are many.
func (e enum) expectNear(word string) string {
	near := nearest(word, e)
	switch {
	case near == "":
		return "one of " + listNear(word, e)
	case len(e) > 8:
		return fmt.Sprintf("one of %d words; did you mean %q?", len(e), near)
	}
	return fmt.Sprintf("%s; did you mean %q?", e.expect(), near)
}

func (e enum) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || !slices.Contains(e, n.Value) {
		d.mismatch(n, path, e.expectNear(n.Value))
		return
	}
	*dst.(*string) = n.Value
}

func (enum) encode(src any, _ func(*key) bool) *yaml.Node { return plain(*src.(*string)) }

// texts is a list of strings, each as the kind says (a text or an enum).
type texts struct{ each kind }

func (l texts) expect() string { return "a list, each " + l.each.expect() }

func (l texts) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]string, len(n.Content))
	for i, c := range n.Content {
		l.each.decode(d, c, fmt.Sprintf("%s[%d]", path, i), &out[i])
	}
	*dst.(*[]string) = out
}

func (texts) encode(src any, _ func(*key) bool) *yaml.Node { return strs(*src.(*[]string)) }

// The nodes that encode writes.

func plain(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: v} }

func str(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v} }

func float(v float64) *yaml.Node { return plain(strconv.FormatFloat(v, 'g', -1, 64)) }

func flow(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}

func strs(words []string) *yaml.Node {
	out := flow()
	for _, w := range words {
		out.Content = append(out.Content, str(w))
	}
	return out
}
