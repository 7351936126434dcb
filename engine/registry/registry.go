package registry

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
)

// Kind is the sort of thing that a name is for.
type Kind string

// The kinds. Each has names of its own.
const (
	Op        Kind = "op"
	Layer     Kind = "layer"
	Loss      Kind = "loss"
	Metric    Kind = "metric"
	Optimizer Kind = "optimizer"
	Schedule  Kind = "schedule"
	Source    Kind = "data source"
)

// Entry is a name that may stand in a config.
type Entry struct {
	Kind    Kind
	Name    string
	Version int    // at least 1: runs keep it, and refuse another one. 0: a name of Berth's own
	Doc     string // a sentence for lists
	// Keys is a struct with the defaults of the keys in a config, as [Fields] takes it.
	Keys any
	// Of a loss: its targets are classes, answers can be right or wrong, and targets are
	// numbers from 0 to 1, which stand for no and yes. Of a data source: its targets are
	// classes.
	Classes, Accuracy, Bits bool
	// Applies, of a loss: the layers that it begins with, the first by itself. No model
	// should end in one.
	Applies []string
	Moves   bool // of a layer: it computes no number, but moves them
}

// String is `layer "swish2" version 3`.
func (e Entry) String() string {
	if e.Version == 0 {
		return fmt.Sprintf("%s %q", e.Kind, e.Name)
	}
	return fmt.Sprintf("%s %q version %d", e.Kind, e.Name, e.Version)
}

var (
	mu      sync.Mutex
	entries []Entry
	sealed  bool
)

var validName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// Add adds a name of a program, and calls insert, which puts its row into a table. It
// panics if that cannot be: the mistake is in the program.
func Add(e Entry, insert func()) {
	if e.Version < 1 {
		panic(fmt.Sprintf("register %v: the version must be at least 1", e))
	}
	put(e, insert)
}

// BuiltIn is Add for Berth's own names, which have no version.
func BuiltIn(e Entry, insert func()) { put(e, insert) }

func put(e Entry, insert func()) {
	mu.Lock()
	defer mu.Unlock()
	if e.Keys == nil {
		e.Keys = struct{}{}
	}
	if err := e.check(); err != nil {
		panic(fmt.Sprintf("register %v: %v", e, err))
	}
	entries = append(entries, e)
	insert()
}

// check needs mu.
func (e Entry) check() error {
	switch {
	case sealed:
		return fmt.Errorf("names have been looked up already, and none can be added any more: register it in an init function")
	case !validName.MatchString(e.Name):
		return fmt.Errorf("the name must be lower-case letters, digits and '_', and begin with a letter")
	case slices.ContainsFunc(entries, func(o Entry) bool { return o.Kind == e.Kind && o.Name == e.Name }):
		return fmt.Errorf("the name exists already: choose another")
	}
	fields, err := Fields(e.Keys)
	if err != nil {
		return err
	}
	nested := 0
	for _, f := range fields {
		if slices.Contains(reserved[e.Kind], f.Name) {
			return fmt.Errorf("key %q exists already: choose another name for field %s", f.Name, f.Field)
		}
		if f.Nested {
			nested++
		}
	}
	if nested > 1 || nested > 0 && e.Kind != Layer {
		return fmt.Errorf("its keys have a list of layers: only a layer may have one, and only one")
	}
	return nil
}

// reserved are the keys that every config of a kind has.
var reserved = map[Kind][]string{
	Layer:     {"type", "name", "version"},
	Loss:      {"name", "version"},
	Metric:    {"name", "version"},
	Optimizer: {"name", "version", "lr", "clip_norm", "no_decay", "freeze"},
	Schedule:  {"name", "version", "warmup", "ends_at"},
	Source:    {"source", "version", "split", "task"},
}

// List gives the entries of a kind, in the order of [Compare].
func List(k Kind) []Entry {
	mu.Lock()
	defer mu.Unlock()
	sealed = true
	var list []Entry
	for _, e := range entries {
		if e.Kind == k {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return Compare(k, a.Name, a.Version, b.Name, b.Version) })
	return list
}

// Any reports whether there is an entry of a kind.
func Any(k Kind) bool {
	mu.Lock()
	defer mu.Unlock()
	sealed = true
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == k })
}

// Find gives the entry of that name; ok is false if there is none.
func Find(k Kind, name string) (e Entry, ok bool) {
	mu.Lock()
	defer mu.Unlock()
	sealed = true
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Kind == k && e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return entries[i], true
}

// Seal ends the adding of names, before tables are read.
func Seal() {
	mu.Lock()
	sealed = true
	mu.Unlock()
}
