package configs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/internal/edit"
)

// envPrefix starts the environment variables that set keys.
const envPrefix = "BERTH_"

// variable names the environment variable of a key.
func variable(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// Overlay holds values that replace those of a file. A flag wins over Set, Set
// over Env, Env over the file, the file over the default. A list is replaced
// as a whole: its items have no keys of their own.
type Overlay struct {
	Flags map[string]string // by the name of a flag that [Flags] lists: "devices": "cpu:2"
	Set   []string          // "train.batch=64"; of two that set a key the later wins
	Env   []string          // "BERTH_TRAIN_BATCH=64", as os.Environ gives them; only those that begin with BERTH_ count
}

// Flag is a command-line flag that sets a key.
type Flag struct {
	Name, Key, Usage string
	Takes            string // its value in help, such as SIZE; bool for a switch
	Trains           bool   // only commands that train have it
	Alone            string // its value where it is given without one; "": it needs one
}

// Flags lists the flags that set a key directly, for the command line to define.
func Flags() []Flag {
	var out []Flag
	for path, l := range allLeaves() {
		if l.key.flag != "" && path == l.path {
			out = append(out, Flag{l.key.flag, l.path, l.key.doc, l.key.flagTakes, l.key.flagTrains, l.key.flagAlone})
		}
	}
	slices.SortFunc(out, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// allLeaves are the keys that can be overridden, by path. The map is for reading.
func allLeaves() map[string]leaf {
	foundLeaves.once.Do(func() { foundLeaves.all = rootSection.leaves("", map[string]leaf{}) })
	return foundLeaves.all
}

// foundLeaves are found once, as the names in the registry are.
var foundLeaves struct {
	once sync.Once
	all  map[string]leaf
}

// KeysNear lists the keys that an unknown name may mean: those with the
// name's last part (optimizer.lr for lr and train.lr), or else the nearest ones. It is empty if none is
// near.
func KeysNear(name string) []string { return keysNear(name, Keys()) }

// Keys lists the dotted paths of all keys that can be overridden, sorted.
func Keys() []string {
	var paths []string
	for path, l := range allLeaves() {
		if path == l.path {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// A layering finds the override that wins for each key. The rules of
// precedence are viper's: it is told which keys the file gives, and is given
// the overrides of the environment, --set and flags.
type layering struct {
	d     *decoder
	v     *viper.Viper
	known map[string]leaf
	used  map[string]leaf   // the keys that are overridden, by path
	pairs map[string]string // by path: the --set that sets it
	unset []string          // sections that --set takes back
	root  *yaml.Node        // the config, for hints; nil: it is not known
}

// applyOverlay writes the overlay's values into the tree.
func applyOverlay(d *decoder, root *yaml.Node, o Overlay) {
	if len(o.Flags)+len(o.Set)+len(o.Env) == 0 {
		return
	}
	l := layering{d: d, v: viper.New(), known: allLeaves(), used: map[string]leaf{}, pairs: map[string]string{}, root: root}
	l.file(root)
	l.env(o.Env)
	l.set(o.Set)
	l.flags(o.Flags)
	for _, path := range l.unset {
		parts := strings.Split(path, ".")
		last := len(parts) - 1
		if in := descend(root, parts[:last], nil); in != nil {
			removeKey(in, parts[last])
		}
	}
	won := l.won()
	for path, value := range won {
		dropOthers(root, l.used[path], value.text)
	}
	for _, path := range slices.Sorted(maps.Keys(won)) {
		put(d, root, l.used[path], won[path])
	}
}

// won are the overrides that win, by path.
func (l *layering) won() map[string]override {
	won := map[string]override{}
	for path := range l.used {
		switch value := l.v.Get(path).(type) {
		case override:
			won[path] = value
		case string:
			won[path] = override{value, "--set " + l.pairs[path]}
		}
	}
	return won
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

// merge adds one key to viper's config, over the value that was there.
func (l *layering) merge(path string, value any) {
	parts := strings.Split(path, ".")
	for _, p := range slices.Backward(parts) {
		value = map[string]any{p: value}
	}
	if err := l.v.MergeConfigMap(value.(map[string]any)); err != nil {
		panic("BUG: viper refuses " + path + ": " + err.Error())
	}
}

// otherVariables are the variables with envPrefix that set no key: the devices,
// the debug output and the tests read them.
var otherVariables = []string{"BERTH_CACHE", "BERTH_COSTS", "BERTH_CPU", "BERTH_DEBUG", "BERTH_KILLS", "BERTH_MPI", "BERTH_OPENCL", "BERTH_QUEUE"}

// isOther reports whether a variable sets no key, and is none of those that should.
func isOther(name string) bool {
	return !strings.HasPrefix(name, envPrefix) || slices.Contains(otherVariables, name)
}

// KeyVariables lists the variables among env, as os.Environ gives them, that can
// only be meant for a config: a command without one refuses them.
func KeyVariables(env []string) (pairs []string) {
	for _, pair := range env {
		if name, _, _ := strings.Cut(pair, "="); !isOther(name) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// env takes the variables that name a key, and refuses those that nothing reads.
func (l *layering) env(env []string) {
	if len(env) == 0 {
		return
	}
	variables := map[string]leaf{}
	for path, lf := range l.known {
		variables[variable(path)] = lf
	}
	known := slices.Sorted(maps.Keys(variables))
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		if isOther(name) {
			continue
		}
		if now := retiredVariable(name); now != "" {
			if text != "" {
				l.d.fail(Pos{File: pair}, "", "this variable is gone: %s", now)
			}
			continue
		}
		if lf, ok := variables[name]; ok {
			lf = lf.of(text)
			l.used[lf.path] = lf
			l.merge(lf.path, override{text, pair})
			continue
		}
		l.d.fail(Pos{File: pair}, "", "this variable sets no key; %s", variableAdvice(name, known))
	}
}

// variableAdvice says what a variable that nothing reads may mean.
func variableAdvice(name string, known []string) string {
	if near := edit.Nearest(name, slices.Concat(known, otherVariables), 1+len(name)/12); near != "" {
		return "did you mean " + near + "?"
	}
	if below := inSection(name, known); len(below) > 0 {
		return "expected one of " + list(below)
	}
	return "unset it, or name it as BERTH_TRAIN_BATCH is named, which sets train.batch"
}

// inSection lists the known variables of the section whose name a variable
// starts with.
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

// setFlag hands a --set to viper as a bound flag. Bound flags win over the
// environment, and viper's Set, which layering.flags uses, wins over them.
type setFlag struct{ path, text string }

func (f setFlag) HasChanged() bool    { return true }
func (f setFlag) Name() string        { return f.path }
func (f setFlag) ValueString() string { return f.text }
func (f setFlag) ValueType() string   { return "string" }

// columnsKey has several columns, and hints name one each. So a second --set is meant beside the first.
const columnsKey = "data.columns"

// set takes the pairs of --set.
func (l *layering) set(pairs []string) {
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		lf, known := l.known[name]
		switch {
		case !ok:
			example := "train.batch=64"
			if name, text, file := strings.Cut(pair, ":"); file && l.known[name].path != "" { // as a file has it
				example = name + "=" + strings.TrimSpace(text)
			}
			l.d.fail(Pos{File: "--set " + pair}, "", "expected key=value, such as %s", example)
		case !known && text == "" && l.isSection(name):
			l.unset = append(l.unset, name)
		case !known:
			l.d.fail(Pos{File: "--set " + pair}, "", "no key %q that can be set%s", name, l.hint(name, text))
		case name == columnsKey && l.pairs[columnsKey] != "":
			l.d.fail(Pos{File: "--set " + pair}, "", "%s is given twice, and the last would take the place of the first; name all columns in one: --set '%s={plan: category, id: ignore}'", columnsKey, columnsKey)
		default:
			lf = lf.of(text)
			l.used[lf.path], l.pairs[lf.path] = lf, pair
			if err := l.v.BindFlagValue(lf.path, setFlag{lf.path, text}); err != nil {
				panic("BUG: viper refuses " + lf.path + ": " + err.Error())
			}
		}
	}
}

// isSection reports whether keys that can be set are below a name.
func (l *layering) isSection(name string) bool { return len(l.below(name)) > 0 }

// below lists the keys of a section, sorted.
func (l *layering) below(name string) (keys []string) {
	for _, path := range slices.Sorted(maps.Keys(l.known)) {
		if strings.HasPrefix(path, name+".") {
			keys = append(keys, path)
		}
	}
	return keys
}

// hint names the keys below a section, or the nearest key. value is what the key was to have; "": it is
// not known.
func (l *layering) hint(name, value string) string {
	if now := retiredKey(name); now != "" {
		return "; it is gone: " + now
	}
	if below := l.below(name); len(below) > 0 {
		return "; it is a section, set one of " + list(below) + ", or give " + name + "= to take it back"
	}
	value = cmp.Or(value, "VALUE")
	if above, own, _ := strings.Cut(name, "."); above == "loss" && own == "name" {
		return "; the loss is set as a whole: --set 'loss={name: " + value + "}'"
	} else if above == "loss" && own != "" {
		return "; the loss is set as a whole: --set 'loss={name: NAME, " + own + ": " + value + "}'"
	}
	if above := l.wholeAbove(name); above != "" {
		return fmt.Sprintf("; %s is set as a whole, with all that it is to have: --set '%s=%s'", above, above, l.whole(above, name[len(above)+1:], value))
	}
	if near := KeysNear(name); len(near) > 0 {
		return didYouMeanOneOf(near)
	}
	return "; `trainer configs reference` lists all keys"
}

// wholeAbove is the key above a name that is set as a whole; "" if there is none.
func (l *layering) wholeAbove(name string) string {
	for i := strings.LastIndexByte(name, '.'); i > 0; i = strings.LastIndexByte(name[:i], '.') {
		if _, known := l.known[name[:i]]; known && !l.isSection(name[:i]) {
			return name[:i]
		}
	}
	return ""
}

// whole is the value of a key that is set as a whole, as the config has it, with another one below.
func (l *layering) whole(name, below, value string) string {
	parts := strings.Split(name, ".")
	last := len(parts) - 1
	out := &yaml.Node{Kind: yaml.MappingNode}
	if in := descend(cmp.Or(l.root, out), parts[:last], nil); in != nil {
		out = mappingOf(lookUp(in, parts[last]))
	}
	at, keys := out, strings.Split(below, ".")
	if lf, ok := l.known[name]; ok && lf.key.kind == (pins{}) { // an op is named layer.op
		keys = []string{below}
	}
	for _, key := range keys[:len(keys)-1] {
		at = setIn(at, key, mappingOf(lookUp(at, key)))
	}
	set, err := readYAML("", []byte(value))
	if err != nil {
		set = str(value)
	}
	setIn(at, keys[len(keys)-1], set)
	flat(out)
	doubleQuoted(out)
	return textOf(out)
}

// doubleQuoted makes the scalars that YAML would write in single quotes, which end an argument of a
// shell, be written in double ones: in a list or mapping, those with a colon, too.
func doubleQuoted(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && (strings.HasPrefix(textOf(n), "'") || strings.Contains(n.Value, ":")) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		doubleQuoted(c)
	}
}

// flags takes the flags that [Flags] lists.
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
		l.v.Set(path, override{flags[name], "--" + name + " " + flags[name]})
	}
}
