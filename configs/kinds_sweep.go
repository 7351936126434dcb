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

// configName is the path of a config, or the name of a shipped one.
type configName struct{}

func (configName) expect() string { return "a path, or the name of a shipped config" }

func (c configName) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || !pathText.pattern.MatchString(n.Value) {
		d.mismatch(n, path, c.expect())
		return
	}
	name := n.Value
	if !slices.Contains(Names(), name) {
		name = d.path(n, path, name)
	}
	*dst.(*string) = name
}

func (configName) encode(src any, _ func(*key) bool) *yaml.Node { return str(*src.(*string)) }

// cohorts is the number of trials, or the numbers of those that began together.
type cohorts struct{}

func (cohorts) expect() string { return whole{1, mostTrials}.expect() }

func (c cohorts) decode(d *decoder, n *yaml.Node, path string, dst any) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		items = n.Content
	}
	out, total := make([]int, len(items)), 0
	for i, item := range items {
		v, ok := whole{1, mostTrials}.parse(item)
		if total += v; !ok || total > mostTrials {
			d.mismatch(n, path, c.expect())
			return
		}
		out[i] = v
	}
	*dst.(*[]int) = out
}

func (cohorts) encode(src any, keep func(*key) bool) *yaml.Node {
	if list := *src.(*[]int); len(list) != 1 {
		return ints{}.encode(&list, keep)
	}
	return plain(strconv.Itoa((*src.(*[]int))[0]))
}

// dimensions is the keys that vary.
type dimensions struct{}

func (dimensions) expect() string {
	return `keys with their values, such as {optimizer.lr: "log:1e-4..1e-1", train.batch: [32, 64]}`
}

func (k dimensions) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.mismatch(n, path, k.expect())
		return
	}
	given := entries(d, n, path)
	known := allLeaves()
	var out []Dimension
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if e := given[name.Value]; e.key != name {
			continue // reported
		}
		if _, ok := known[name.Value]; !ok {
			l := layering{d: d, known: known}
			hint := l.hintOfVaried(name.Value, n.Content[i+1])
			d.fail(d.pos(name), name.Value, "the config has no such key%s", hint)
			continue
		}
		dim := Dimension{Pos: d.pos(n.Content[i+1]), Key: name.Value}
		if dim.decode(d, n.Content[i+1]) {
			out = append(out, dim)
		}
	}
	*dst.(*[]Dimension) = out
}

// hintOfVaried is hint for a key with several values. Flags give those of a key that is set as a whole
// beside what the config has.
func (l *layering) hintOfVaried(name string, values *yaml.Node) string {
	if below := l.below(name); len(below) > 0 {
		return "; it is a section, whose keys vary one by one: " + list(below)
	}
	above := l.wholeAbove(name)
	if above == "" || l.d.base == "" || values.Kind != yaml.SequenceNode {
		return l.hint(name, "")
	}
	if data, err := textOfConfig(l.d.base); err == nil { // else loading the config says what is wrong
		l.root, _ = readYAML(l.d.base, data)
	}
	var texts []string
	for _, v := range values.Content {
		texts = append(texts, l.whole(above, name[len(above)+1:], textOf(v)))
	}
	return fmt.Sprintf("; %s is set as a whole, with all that it is to have: --vary '%s=%s'", above, above, strings.Join(texts, ","))
}

func (dimensions) encode(src any, _ func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, dim := range *src.(*[]Dimension) {
		value := str(dim.rangeText())
		if dim.Values != nil {
			value = flow()
			for _, text := range dim.Values {
				value.Content = append(value.Content, valueNode(dim.Key, text))
			}
		}
		out.Content = append(out.Content, str(dim.Key), value)
	}
	return out
}

// valueNode is the node of a value as --set takes it.
func valueNode(name, text string) *yaml.Node {
	n, err := parseOverride(allLeaves()[name].key, text)
	if err != nil {
		return str(text)
	}
	flat(n)
	return n
}

// flat makes a node be written on one line.
func flat(n *yaml.Node) {
	n.Style = yaml.FlowStyle
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		flat(c)
	}
}

// logPrefix begins a range that is even by magnitude.
const logPrefix = "log:"

// rangePattern has the ends of a range.
var rangePattern = regexp.MustCompile(`^\s*(` + logPrefix + `)?\s*([-+]?[0-9][-+.0-9eE]*?|[-+]?\.[0-9]+)\s*\.\.\s*([-+]?\.?[0-9][-+.0-9eE]*)\s*$`)

// decode reads the values of a dimension whose key is known.
func (x *Dimension) decode(d *decoder, n *yaml.Node) (ok bool) {
	switch {
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		return x.decodeList(d, n)
	case n.Kind == yaml.ScalarNode && rangePattern.MatchString(n.Value):
		return x.decodeRange(d, n)
	}
	d.mismatch(n, x.Key, "a list of values, or a range such as 0.1..0.5 or log:1e-4..1e-1")
	return false
}

func (x *Dimension) decodeList(d *decoder, n *yaml.Node) bool {
	before := len(d.faults)
	for _, item := range n.Content {
		text, _ := x.value(d, item)
		if slices.Contains(x.Values, text) && len(d.faults) == before {
			d.fail(d.pos(item), x.Key, "the list has %s twice; each combination is trained once", text)
		}
		x.Values = append(x.Values, text)
	}
	return len(d.faults) == before
}

// mostExact is the largest number up to which a float64 has all whole numbers.
const mostExact = 1 << 53

// leastWidth is that of a range of real numbers, as a share of its larger end: below it there could be fewer values than
// trials.
const leastWidth = 1e-9

func (x *Dimension) decodeRange(d *decoder, n *yaml.Node) bool {
	m := rangePattern.FindStringSubmatch(n.Value)
	x.Log = m[1] != ""
	for i, end := range []*float64{&x.Lo, &x.Hi} {
		item := plain(m[2+i])
		item.Line = n.Line
		d.origin[item] = d.origin[n]
		text, k := x.value(d, item)
		if k == nil {
			return false
		}
		numbers, wholes := numeric(k)
		v, err := strconv.ParseFloat(text, 64)
		if !numbers || err != nil {
			d.fail(d.pos(n), x.Key, "has no ranges, since its values are not numbers (%s): give a list", k.kind.expect())
			return false
		}
		*end, x.Whole = v, wholes
	}
	switch {
	case x.Lo >= x.Hi:
		d.mismatch(n, x.Key, "the lower end first, and two that differ")
	case x.Log && x.Lo <= 0:
		d.mismatch(n, x.Key, "ends above 0 after "+logPrefix)
	case x.Whole && (x.Lo < -mostExact || x.Hi > mostExact):
		d.mismatch(n, x.Key, fmt.Sprintf("whole numbers up to %d in a range", int64(mostExact)))
	case math.IsInf(x.Hi-x.Lo, 0):
		d.mismatch(n, x.Key, "ends that are less far apart")
	case !x.Whole && x.Hi-x.Lo < leastWidth*max(-x.Lo, x.Hi):
		d.mismatch(n, x.Key, "ends that differ in their first nine digits")
	default:
		return true
	}
	return false
}

// numeric reports whether a key takes numbers of a range, and whether they are whole.
func numeric(k *key) (numbers, wholes bool) {
	switch k.kind.(type) {
	case real, splitKind:
		return true, false
	case whole, wordOr, orNumber, seed:
		return true, true
	}
	return false, false
}

// value checks an item by the table of the dimension's key. It gives the text that --set takes for the
// same, in which paths are absolute, and the key that took it; nil if none does. A key may have
// several meanings: `model.layers` is a number in one model and a list in another.
func (x *Dimension) value(d *decoder, item *yaml.Node) (text string, k *key) {
	var first []*Error
	for _, f := range fieldsAt(x.Key, item) {
		apart := newDecoder(d.file, d.paths)
		apart.origin = d.origin
		text, err := f.text(apart, item, x.Key)
		if err != nil {
			apart.fail(d.pos(item), x.Key, "%v", err)
		}
		for _, check := range apart.checks {
			check()
		}
		if len(apart.faults) == 0 {
			return text, f.key
		}
		if first == nil {
			first = apart.faults
		}
	}
	d.faults = append(d.faults, first...)
	return "", nil
}

// field is a key with the struct that it fills.
type field struct {
	key    *key
	config *Config
	dst    any
}

// fieldsAt are the keys of a dotted path, each in a config of its own.
func fieldsAt(path string, value *yaml.Node) (out []field) {
	lf := allLeaves()[path]
	if value.Kind == yaml.SequenceNode && lf.list != nil {
		lf = *lf.list
	}
	parts := strings.Split(lf.path, ".")
	last := parts[len(parts)-1]
	s := rootSection
	for _, name := range parts[:len(parts)-1] {
		s = s.child(name)
	}
	fields := func(keys []*key, choice string) {
		for _, k := range keys {
			if k.name != last {
				continue
			}
			c := &Config{}
			var dst any = c
			in := rootSection
			for _, name := range parts[:len(parts)-1] {
				i := slices.IndexFunc(in.all(), func(k *key) bool { return k.name == name })
				dst, in = in.all()[i].at(dst), in.all()[i].section()
			}
			in.begin(choice, dst)
			out = append(out, field{k, c, k.at(dst)})
		}
	}
	own, _ := s.active(noChoice)
	fields(own, "")
	for _, v := range s.rows() {
		fields(v.keys, v.name)
	}
	return out
}

// text decodes a value, and gives it as --set takes it.
func (f field) text(d *decoder, n *yaml.Node, path string) (string, error) {
	if isNull(n) {
		return "", fmt.Errorf("has no value, expected %s", f.key.kind.expect())
	}
	f.key.kind.decode(d, n, path, f.dst)
	if len(d.faults) > 0 {
		return "", nil
	}
	rooted, err := f.config.Rooted()
	if err != nil {
		return "", err
	}
	*f.config = *rooted
	node := f.key.kind.encode(f.dst, func(*key) bool { return true })
	if _, ok := f.key.kind.(text); ok {
		return node.Value, nil
	}
	flat(node)
	return textOf(node), nil
}
