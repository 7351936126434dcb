package configs

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Column says how a column of a table is used. A zero field means: as it is found.
type Column struct {
	Name    string // of the column, or its number; "*": all columns without an entry
	Kind    string // number, boolean, category, date, text, identifier or ignore
	Missing string // what stands for a missing value: median, frequent or refuse
	Top     int    // of a category: the values that get a feature each
	Order   string // of a date: ymd, dmy or mdy
}

var (
	columnKind    = enum{"number", "boolean", "category", "date", "text", "identifier", "ignore"}
	columnMissing = enum{"median", "frequent", "refuse"}
	columnOrder   = enum{"ymd", "dmy", "mdy"}
	columnTop     = whole{1, 1 << 16}
)

// columnList is a list of Columns: a mapping with a key for each.
type columnList struct{}

func (columnList) expect() string {
	return "kinds by column, such as {plan: category, age: {missing: median}, id: ignore}"
}

func (l columnList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, path, l.expect())
		return
	}
	given := entries(d, n, path)
	var out []Column // nil for none
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		e, ok := given[name]
		if !ok || e.key != n.Content[i] {
			continue // a fault that entries has reported
		}
		at := join(path, name)
		d.where[at] = d.pos(e.value)
		c := Column{Name: name}
		c.decode(d, e.value, at)
		out = append(out, c)
	}
	*dst.(*[]Column) = out
}

// columnKeys are the keys of a column.
var columnKeys = []string{"kind", "missing", "top", "order"}

// decode reads a kind, or a mapping of keys.
func (c *Column) decode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode {
		columnKind.decode(d, n, path, &c.Kind)
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.mismatch(n, path, columnKind.expect()+", or a mapping with "+strings.Join(columnKeys, ", "))
		return
	}
	for name, e := range entries(d, n, path) {
		switch at := join(path, name); name {
		case "kind":
			columnKind.decode(d, e.value, at, &c.Kind)
		case "missing":
			columnMissing.decode(d, e.value, at, &c.Missing)
		case "order":
			columnOrder.decode(d, e.value, at, &c.Order)
		case "top":
			columnTop.decode(d, e.value, at, &c.Top)
		default:
			d.fail(d.pos(e.key), at, "unknown key%s", didYouMean(name, columnKeys))
		}
	}
}

func (columnList) encode(src any, _ func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, c := range *src.(*[]Column) {
		out.Content = append(out.Content, str(c.Name), c.encode())
	}
	return out
}

// encode gives the kind alone, or the mapping of all keys that are given.
func (c *Column) encode() *yaml.Node {
	if *c == (Column{Name: c.Name, Kind: c.Kind}) {
		return plain(c.Kind)
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, x := range []struct{ key, value string }{{"kind", c.Kind}, {"missing", c.Missing}, {"top", strconv.Itoa(c.Top)}, {"order", c.Order}} {
		if x.value != "" && x.value != "0" {
			out.Content = append(out.Content, plain(x.key), plain(x.value))
		}
	}
	return out
}

// labels is the label of a Data, or a list of labels.
type labels struct{}

func (labels) expect() string { return column.expect() + "; or a list of columns" }

func (l labels) decode(d *decoder, n *yaml.Node, path string, dst any) {
	data := dst.(*Data)
	if n.Kind != yaml.SequenceNode {
		column.decode(d, n, path, &data.Label)
		return
	}
	var all []string
	texts{column}.decode(d, n, path, &all)
	if len(all) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	data.Label, data.MoreLabels = all[0], nil
	if len(all) > 1 {
		data.MoreLabels = all[1:]
	}
}

func (labels) encode(src any, _ func(*key) bool) *yaml.Node {
	data := src.(*Data)
	if len(data.MoreLabels) == 0 {
		return column.encode(&data.Label, nil)
	}
	return strs(append([]string{data.Label}, data.MoreLabels...))
}

// fieldWord is the text of a field of a table: any scalar, as it is written.
type fieldWord struct{}

func (fieldWord) expect() string { return "a word" }

func (w fieldWord) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode {
		d.mismatch(n, path, w.expect())
		return
	}
	*dst.(*string) = strings.TrimSpace(n.Value)
}

func (fieldWord) encode(src any, _ func(*key) bool) *yaml.Node { return str(*src.(*string)) }
