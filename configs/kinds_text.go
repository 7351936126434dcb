package configs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

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

// inverted is a bool whose field is the opposite.
type inverted struct{ boolean }

func (i inverted) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v := !*dst.(*bool)
	i.boolean.decode(d, n, path, &v)
	*dst.(*bool) = !v
}

func (inverted) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(strconv.FormatBool(!*src.(*bool)))
}

// text is a string that matches the pattern, if there is one.
type text struct {
	valid   string // describes the valid strings: "a name of letters and digits"
	pattern *regexp.Regexp
	bare    bool // a whole number needs no quotes
	listed  bool // a list of such texts is valid, too
	tab     bool // the two characters \t mean a tab, which a flag cannot write otherwise
	path    bool // a path: see decoder.path
	named   bool // of a path: the name of a tokenizer is none
}

// Texts without a pattern, and paths that may be "".
var (
	anyText   = text{valid: "text"}
	laterPath = text{listed: true, path: true, valid: "a path", pattern: regexp.MustCompile(`^[^\x00]*$`)}
)

func (t text) expect() string { return t.valid }

func (t text) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if t.tab && n.Kind == yaml.ScalarNode && n.Value == `\t` {
		*dst.(*string) = "\t"
		return
	}
	typed := n.ShortTag() == "!!str" || d.origin[n] != "" || t.bare && n.ShortTag() == "!!int"
	if n.Kind != yaml.ScalarNode || !typed || t.pattern != nil && !t.pattern.MatchString(n.Value) {
		d.mismatch(n, path, t.valid)
		return
	}
	v := n.Value
	if t.path && !(t.named && (&Data{Tokenizer: v}).TokenizerFile() == "") {
		v = d.path(n, path, v)
	}
	*dst.(*string) = v
}

func (text) encode(src any, _ func(*key) bool) *yaml.Node { return str(*src.(*string)) }

// enum is a kind of key whose value is one of these words.
type enum []string

func (e enum) expect() string { return "one of " + strings.Join(e, ", ") }

// expectNear is expect with the nearest word. Of many words it names only that
// one; if none is near, it lists them all.
func (e enum) expectNear(word string) string {
	near := nearest(word, e)
	switch {
	case near == "":
		return e.expect()
	case len(e) > 8:
		return fmt.Sprintf("one of %d words (`trainer configs reference` lists them); did you mean %q?", len(e), near)
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

// modes is words that exclude each other, or several of more with commas.
type modes struct{ one, more enum }

func (m modes) expect() string {
	return slices.Concat(m.one, m.more).expect() + ", or several of " + strings.Join(m.more, ", ") + " with commas between them"
}

func (m modes) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if !m.has(n) {
		d.mismatch(n, path, m.expect())
		return
	}
	*dst.(*string) = strings.Join(m.split(n.Value), ",")
}

// split is the modes of a value, without the blanks about commas.
func (modes) split(value string) []string {
	list := strings.Split(value, ",")
	for i, x := range list {
		list[i] = strings.TrimSpace(x)
	}
	return list
}

// has reports whether a value is one of the modes, or several without repetition.
func (m modes) has(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	list := m.split(n.Value)
	if len(list) == 1 && slices.Contains(m.one, list[0]) {
		return true
	}
	for i, x := range list {
		if !slices.Contains(m.more, x) || slices.Contains(list[:i], x) {
			return false
		}
	}
	return true
}

func (modes) encode(src any, _ func(*key) bool) *yaml.Node { return plain(*src.(*string)) }

// chosen gives a section's selector its kind: the names of the variants.
func chosen(s *section) *section {
	s.selector.kind = choice{s}
	return s
}

// texts is a list of strings. each is a text or an enum.
type texts struct{ each kind }

func (l texts) expect() string { return "a list, each item " + l.each.expect() }

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

// paths is the path of a Data, or a list of paths. An empty path is one that will
// be named when data is read: an imported model has no data yet.
type paths struct{ each text }

func (p paths) expect() string { return p.each.expect() + ", or a list of paths" }

func (p paths) decode(d *decoder, n *yaml.Node, path string, dst any) {
	data := dst.(*Data)
	if n.Kind != yaml.SequenceNode {
		laterPath.decode(d, n, path, &data.Path)
		return
	}
	if len(n.Content) == 0 {
		d.mismatch(n, path, p.expect())
		return
	}
	var all []string
	texts{p.each}.decode(d, n, path, &all)
	data.Path = all[0]
	if len(all) > 1 {
		data.MorePaths = all[1:]
	}
}

func (p paths) encode(src any, _ func(*key) bool) *yaml.Node {
	data := src.(*Data)
	if len(data.MorePaths) == 0 {
		return str(data.Path)
	}
	return strs(append([]string{data.Path}, data.MorePaths...))
}

// cut is a Stages: auto, a number, or lists of block names.
type cut struct {
	block text // of each block name
}

func (cut) expect() string {
	return "auto, a number of stages, or a list of lists of block names such as [[embed, block0], [block1, head]]"
}

func (c cut) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*Stages)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "auto":
		*out = Stages{}
	case n.Kind == yaml.ScalarNode:
		v, ok := whole{1, maxDim}.parse(n)
		if !ok {
			d.mismatch(n, path, c.expect())
			return
		}
		*out = Stages{Count: v}
	case n.Kind == yaml.SequenceNode && len(n.Content) > 0:
		*out = Stages{Blocks: make([][]string, len(n.Content))}
		for i, stage := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if stage.Kind != yaml.SequenceNode || len(stage.Content) == 0 {
				d.mismatch(stage, at, "a list of at least one block name")
				continue
			}
			texts{c.block}.decode(d, stage, at, &out.Blocks[i])
		}
	default:
		d.mismatch(n, path, c.expect())
	}
}

func (cut) encode(src any, _ func(*key) bool) *yaml.Node {
	s := src.(*Stages)
	switch {
	case len(s.Blocks) > 0:
		out := flow()
		for _, blocks := range s.Blocks {
			out.Content = append(out.Content, strs(blocks))
		}
		return out
	case s.Count > 0:
		return plain(strconv.Itoa(s.Count))
	}
	return plain("auto")
}
