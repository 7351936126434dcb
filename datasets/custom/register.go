package custom

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/internal/panics"
)

// SourceType makes a data set from the keys of a config: `data: {source: NAME, …}`.
type SourceType[Keys any] struct {
	Name    string // of lower-case letters, digits and underscores
	Version int    // from 1; a run keeps it, and is not resumed with another
	Doc     string // a sentence for the reference of configs
	// Defaults are the keys with their defaults. Each field is exported, is a bool, int,
	// float64, string, or a list of ints or strings, and has the tag `yaml:"NAME"` and, if
	// wanted, `doc:"MEANING"` and for numbers `min:"0"` and `max:"1"`. A method Check()
	// error of Keys checks several keys together. A text named path is data.path. The
	// keys split and task are there for every source.
	Defaults Keys
	// Regression says that targets are numbers, unless data.task does.
	Regression bool
	// Open makes the set, once for each run. It may leave Name and Version of the set
	// empty: they are the source's then. ctx ends it early.
	Open func(ctx context.Context, k Keys) (*Set, error)
	// OpenInputs makes a set of samples to predict from, of a file that a user names.
	// nil: there are no such files.
	OpenInputs func(ctx context.Context, k Keys, path string) (*Set, error)
}

// opener opens a registered source with keys of any type.
type opener struct {
	open   func(ctx context.Context, keys any, path string) (*Set, error)
	inputs func(ctx context.Context, keys any, path, file string) (*Set, error)
}

// openers are the registered sources. They do not change once a config is read.
var openers = map[string]opener{}

// given is the source of samples that a program gives when it opens a run.
const given = "given"

// Register makes a source known to configs. Call it in an init function: it panics after
// the first config was read, and for a name that is taken or keys that no config can have.
func Register[Keys any](s SourceType[Keys]) {
	switch {
	case s.Open == nil:
		panic(fmt.Sprintf("register the data source %q: it has no function Open", s.Name))
	case s.Name == given || slices.Contains(datasets.Sources(), s.Name):
		panic(fmt.Sprintf("register the data source %q: the name exists already: choose another", s.Name))
	}
	e := registry.Entry{Kind: registry.Source, Name: s.Name, Version: s.Version, Doc: s.Doc, Keys: s.Defaults, Classes: !s.Regression}
	keysOf := func(from any, path string) (Keys, error) {
		keys, err := registry.KeysOf(from, s.Defaults)
		setPath(&keys, path)
		return keys, err
	}
	o := opener{open: func(ctx context.Context, from any, path string) (*Set, error) {
		keys, err := keysOf(from, path)
		if err != nil {
			return nil, err
		}
		return named(s.Name, s.Version)(s.Open(ctx, keys))
	}}
	if s.OpenInputs != nil {
		o.inputs = func(ctx context.Context, from any, path, file string) (*Set, error) {
			keys, err := keysOf(from, path)
			if err != nil {
				return nil, err
			}
			return named(s.Name, s.Version)(s.OpenInputs(ctx, keys, file))
		}
	}
	registry.Add(e, func() { openers[s.Name] = o })
}

// named gives a set the name and version of its source, if it has none.
func named(name string, version int) func(*Set, error) (*Set, error) {
	return func(s *Set, err error) (*Set, error) {
		if err != nil || s == nil {
			return s, err
		}
		out := *s
		if out.Name == "" {
			out.Name = name
		}
		if out.Version == 0 {
			out.Version = version
		}
		return &out, nil
	}
}

// setPath fills the key path, which configs keep elsewhere.
func setPath(keys any, path string) {
	v := reflect.ValueOf(keys).Elem()
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		if f := v.Field(i); v.Type().Field(i).Tag.Get("yaml") == "path" && f.Kind() == reflect.String {
			f.SetString(path)
		}
	}
}

// Open makes the set of a registered source with the keys of a config. ok is false if
// none has that name.
func Open(ctx context.Context, source string, keys any, path string) (set *Set, ok bool, err error) {
	o, ok := openers[source]
	if !ok {
		return nil, false, nil
	}
	set, err = guarded(source, func() (*Set, error) { return o.open(ctx, keys, path) })
	return set, true, err
}

// OpenInputs makes the set of samples in a file to predict from.
func OpenInputs(ctx context.Context, source string, keys any, path, file string) (set *Set, ok bool, err error) {
	o, ok := openers[source]
	switch {
	case !ok:
		return nil, false, nil
	case o.inputs == nil:
		return nil, true, fmt.Errorf("%s: source %s reads no files to predict from: leave the file out, and the validation samples are taken", file, source)
	}
	set, err = guarded(source, func() (*Set, error) { return o.inputs(ctx, keys, path, file) })
	return set, true, err
}

// guarded calls a function of the program's, whose panic becomes an error.
func guarded(source string, open func() (*Set, error)) (set *Set, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("panic: %s", panics.Text(x))
		}
		if err != nil {
			err = fmt.Errorf("source %s: %w", source, err)
		}
	}()
	set, err = open()
	if err == nil && set == nil {
		err = fmt.Errorf("%w: Open gave neither a set nor an error", datasets.ErrSpec)
	}
	return set, err
}
