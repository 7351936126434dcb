package configs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// A decoder holds the state of reading one tree into structs: the origin of
// every node, and the faults found so far.
type decoder struct {
	file   string
	origin map[*yaml.Node]string // the flag or variable that gave a node; no entry for the file's own
	where  map[string]Pos        // of every key that was given, by its dotted path
	faults []*Error
	notes  []string        // about keys that are gone
	paths  func() []string // the dotted paths of all keys, to name one in a message
	jobs   []string        // the names of a pipeline's jobs
	base   string          // the config of a sweep that flags describe; "": none do

	checks     []func() // of keys that know several of them
	anyVersion bool     // added names may have other versions than the program has
}

func newDecoder(file string, paths func() []string) *decoder {
	return &decoder{file: file, paths: paths, origin: map[*yaml.Node]string{}, where: map[string]Pos{}}
}

// pos gives the position of a node.
func (d *decoder) pos(n *yaml.Node) Pos {
	if o := d.origin[n]; o != "" {
		return Pos{File: o}
	}
	return Pos{File: d.file, Line: n.Line}
}

// posOf gives the position of a key, or the flag or variable that gave its value.
func (d *decoder) posOf(e entry) Pos {
	if d.origin[e.value] != "" {
		return d.pos(e.value)
	}
	return d.pos(e.key)
}

// mark sets the origin of a node and of all below it.
func (d *decoder) mark(n *yaml.Node, origin string) {
	d.origin[n] = origin
	for _, c := range n.Content {
		d.mark(c, origin)
	}
}

func (d *decoder) fail(p Pos, path, format string, args ...any) {
	d.faults = append(d.faults, &Error{Pos: p, Key: path, Msg: fmt.Sprintf(format, args...)})
}

// mismatch reports a value that its kind does not take.
func (d *decoder) mismatch(n *yaml.Node, path, expected string) {
	d.fail(d.pos(n), path, "got %s, expected %s", describe(n), expected)
}

// entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// against reports a key that does not fit another, at the first of the paths
// that was given.
func (d *decoder) against(paths []string, format string, args ...any) {
	at := Pos{File: d.file}
	for _, p := range paths {
		if given, ok := d.where[p]; ok {
			at = given
			break
		}
	}
	d.fail(at, paths[0], format, args...)
}

// unplaced joins the faults of a text that has lines, but no reader.
func (d *decoder) unplaced() error {
	for _, f := range d.faults {
		f.Pos = Pos{}
	}
	return joinFaults(d.faults)
}

// join appends a name to a dotted path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
