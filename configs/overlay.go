package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// envPrefix starts the environment variables that set keys.
const envPrefix = "BERTH_"

// Overlay is what is laid over a file. A flag wins over Set, Set over Env, Env
// over the file, the file over the default. List items cannot be addressed.
type Overlay struct {
	Flags map[string]string // by the flag's name, of those that [Flags] lists: "devices": "cpu:2"
	Set   []string          // "train.batch=64"; of two that set a key the later wins
	Env   []string          // "BERTH_TRAIN_BATCH=64", as os.Environ gives them; others are passed over
}

// Flag is a command-line flag that sets a key.
type Flag struct{ Name, Key, Usage string }

// Flags lists the flags that set a key directly, for the command line to define.
func Flags() []Flag {
	var out []Flag
	for path, l := range rootSection.leaves("", map[string]leaf{}) {
		if l.key.flag != "" && path == l.path {
			out = append(out, Flag{l.key.flag, l.path, l.key.doc})
		}
	}
	slices.SortFunc(out, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// A setting is a value that is laid over the file, and what said so.
type setting struct{ text, origin string }

// setFlag hands a --set to viper, where flags win over all but Set.
type setFlag struct{ path, text string }

func (f setFlag) HasChanged() bool    { return true }
func (f setFlag) Name() string        { return f.path }
func (f setFlag) ValueString() string { return f.text }
func (f setFlag) ValueType() string   { return "string" }

// A layering hands the file's keys and the overlay's settings to viper, which
// says which one wins.
type layering struct {
	d     *decoder
	v     *viper.Viper
	known map[string]leaf
	used  map[string]leaf // what the overlay sets
}

// overlay lays o over the tree.
func (d *decoder) overlay(root *yaml.Node, o Overlay) {
	if len(o.Flags)+len(o.Set)+len(o.Env) == 0 {
		return
	}
	l := layering{d: d, v: viper.New(), known: rootSection.leaves("", map[string]leaf{}), used: map[string]leaf{}}
	l.file(root)
	l.env(o.Env)
	l.set(o.Set)
	l.flags(o.Flags)
	for _, path := range slices.Sorted(maps.Keys(l.used)) {
		switch won := l.v.Get(path).(type) {
		case setting:
			d.put(root, l.used[path], won)
		case string:
			d.put(root, l.used[path], setting{won, fmt.Sprintf("--set %s=%s", path, won)})
		}
	}
}

// file tells viper which keys the file gives; their values stay in the tree.
func (l *layering) file(root *yaml.Node) {
	for path := range l.known {
		parts := strings.Split(path, ".")
		last := len(parts) - 1
		if in := descend(root, parts[:last], nil); in != nil {
			if n := lookUp(in, parts[last]); n != nil && path == l.known[path].path {
				l.merge(path, n)
			}
		}
	}
}

// merge adds one key to viper's config, over what was there.
func (l *layering) merge(path string, value any) {
	parts := strings.Split(path, ".")
	for _, p := range slices.Backward(parts) {
		value = map[string]any{p: value}
	}
	if err := l.v.MergeConfigMap(value.(map[string]any)); err != nil {
		panic("BUG: viper refuses " + path + ": " + err.Error())
	}
}

// env takes the variables that name a key, and refuses those that seem to mean
// one: nearly its name, or a section's name and something else.
func (l *layering) env(env []string) {
	variables := map[string]leaf{}
	for path, lf := range l.known {
		variables[variable(path)] = lf
	}
	known := slices.Sorted(maps.Keys(variables))
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if lf, ok := variables[name]; ok {
			l.used[lf.path] = lf
			l.merge(lf.path, setting{text, pair})
		} else if near := nearestWithin(1+len(name)/12, name, known); near != "" {
			l.d.fail(Pos{File: pair}, "", "this variable sets no key; did you mean %s?", near)
		} else if below := inSection(name, known); len(below) > 0 {
			l.d.fail(Pos{File: pair}, "", "this variable sets no key; expected one of %s", list(below))
		}
	}
}

// inSection lists the variables of the section that a variable's name starts
// with.
func inSection(name string, known []string) []string {
	var out []string
	for _, k := range rootSection.keys {
		prefix := variable(k.name) + "_"
		if _, ok := k.kind.(*section); ok && strings.HasPrefix(name, prefix) {
			for _, v := range known {
				if strings.HasPrefix(v, prefix) {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// set takes the pairs of --set.
func (l *layering) set(pairs []string) {
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		lf, known := l.known[name]
		switch {
		case !ok:
			l.d.fail(Pos{File: "--set " + pair}, "", "expected key=value, such as train.batch=64")
		case !known:
			l.d.fail(Pos{File: "--set " + pair}, "", "no key %q that can be set%s", name, l.hint(name))
		default:
			l.used[lf.path] = lf
			if err := l.v.BindFlagValue(lf.path, setFlag{lf.path, text}); err != nil {
				panic("BUG: viper refuses " + lf.path + ": " + err.Error())
			}
		}
	}
}

// hint names the keys below a section, or the nearest key.
func (l *layering) hint(name string) string {
	known := slices.Sorted(maps.Keys(l.known))
	var below []string
	for _, path := range known {
		if strings.HasPrefix(path, name+".") {
			below = append(below, path)
		}
	}
	if len(below) > 0 {
		return "; it is a section, set one of " + list(below)
	}
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; `trainer configs show digits` prints what there is"
}

// flags takes the flags that the schema knows.
func (l *layering) flags(flags map[string]string) {
	byName := map[string]string{}
	for _, f := range Flags() {
		byName[f.Name] = f.Key
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		path, ok := byName[name]
		if !ok {
			l.d.fail(Pos{File: "--" + name}, "", "this flag sets no key%s", didYouMean(name, slices.Sorted(maps.Keys(byName))))
			continue
		}
		l.used[path] = l.known[path]
		l.v.Set(path, setting{flags[name], "--" + name + " " + flags[name]})
	}
}

// lookUp gives the value of a mapping's key, nil where there is none.
func lookUp(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// descend gives the mapping at a path of sections, shorthands written out in
// place. Where there is none it is made by make, or nil comes back; nil too
// where something else than a mapping is there, which decoding reports.
func descend(root *yaml.Node, path []string, make func() *yaml.Node) *yaml.Node {
	n, s := root, rootSection
	for _, name := range path {
		s = s.child(name)
		next := lookUp(n, name)
		if next == nil {
			if make == nil {
				return nil
			}
			next = make()
			n.Content = append(n.Content, scalar(name, next.Line), next)
		}
		if next.Kind == yaml.ScalarNode {
			alone := *next
			*next = *s.expand(&alone)
		}
		if next.Kind != yaml.MappingNode {
			return nil
		}
		n = next
	}
	return n
}

// put writes a setting into the tree.
func (d *decoder) put(root *yaml.Node, lf leaf, from setting) {
	parts := strings.Split(lf.path, ".")
	last := len(parts) - 1
	in := descend(root, parts[:last], func() *yaml.Node {
		n := &yaml.Node{Kind: yaml.MappingNode}
		d.origin[n] = from.origin
		return n
	})
	value, err := parseSetting(lf.key, from.text)
	if err != nil {
		d.fail(Pos{File: from.origin}, lf.path, "%v", err)
		return
	}
	if in == nil {
		return
	}
	d.mark(value, from.origin)
	if old := lookUp(in, parts[last]); old != nil {
		*old = *value
		d.origin[old] = from.origin
		return
	}
	in.Content = append(in.Content, scalar(parts[last], 0), value)
	d.origin[in.Content[len(in.Content)-2]] = from.origin
}

// parseSetting reads a setting's text: as it stands for a text, as YAML else.
func parseSetting(k *key, given string) (*yaml.Node, error) {
	if _, ok := k.kind.(text); ok {
		return scalar(given, 0), nil
	}
	if strings.TrimSpace(given) == "" {
		return nil, fmt.Errorf("has no value, expected %s", k.kind.expect())
	}
	n, err := readYAML("", []byte(given))
	if err != nil {
		return nil, fmt.Errorf("got %q, expected %s", given, k.kind.expect())
	}
	return n, nil
}

// mark notes the origin of a node and all below it.
func (d *decoder) mark(n *yaml.Node, origin string) {
	d.origin[n] = origin
	for _, c := range n.Content {
		d.mark(c, origin)
	}
}

func scalar(v string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Line: line}
}
