package initial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/graph"
)

// Source is where first weights come from. As a text it is FILE[:PREFIX], or a mapping such as
// {file: w.safetensors, skip: [head.*]}.
type Source struct {
	File   string   `yaml:"file" json:"file,omitempty"`
	Prefix string   `yaml:"prefix" json:"prefix,omitempty"` // of the names in the file; "": the one with which most of the model's are there
	Skip   []string `yaml:"skip" json:"skip,omitempty"`     // the model's weights that begin by rule, where * stands for any text
}

// ParseSource reads a source. A file of that name comes first.
func ParseSource(text string) (s Source, err error) {
	if _, err := os.Stat(text); err == nil || !strings.HasPrefix(text, "{") {
		s.File, s.Prefix = splitPath(text)
		return s, nil
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("%w: %s: %v; expected FILE[:PREFIX] or {file: w.safetensors, skip: [head.*]}", ErrInit, text, err)
	}
	return s, s.check()
}

// check refuses patterns that are none.
func (s Source) check() error {
	for _, p := range s.Skip {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("%w: skip: %q is not a pattern of names, such as head.*", ErrInit, p)
		}
	}
	return nil
}

// String is the source as ParseSource reads it.
func (s Source) String() string {
	if len(s.Skip) == 0 && s.Prefix == "" {
		return s.File
	}
	if len(s.Skip) == 0 {
		return s.File + ":" + s.Prefix
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("BUG: JSON of a file's name: " + err.Error())
	}
	return strings.TrimSpace(b.String())
}

// Skips reports whether a weight begins by rule, although there is a file.
func (s Source) Skips(name string) bool {
	return slices.ContainsFunc(s.Skip, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// unmatched is the first pattern that is of no weight; "" if there is none.
func (s Source) unmatched(vars []*graph.Value) string {
	for _, p := range s.Skip {
		one := Source{Skip: []string{p}}
		if !slices.ContainsFunc(vars, func(v *graph.Value) bool { return weight(v) && one.Skips(v.Name) }) {
			return p
		}
	}
	return ""
}

// weight reports whether a file may give a variable. An adapter always begins by rule.
func weight(v *graph.Value) bool {
	return (v.Role == graph.Parameter || v.Role == graph.Statistic) && !v.Tagged(graph.AdapterTag)
}

// splitPath splits FILE[:PREFIX]; a file whose name has a colon comes first.
func splitPath(init string) (path, prefix string) {
	if _, err := os.Stat(init); err != nil {
		if i := strings.LastIndexByte(init, ':'); i >= 0 {
			return init[:i], init[i+1:]
		}
	}
	return init, ""
}

// foundPrefix is the prefix with which most parameters have a name in the file; of several, the shortest. It
// ends in a dot, or is "".
func foundPrefix(names []string, vars []*graph.Value) string {
	known := map[string]bool{}
	for _, v := range vars {
		if v.Role == graph.Parameter {
			known[v.Name] = true
		}
	}
	counts := map[string]int{}
	for _, name := range names {
		for at := 0; ; {
			if known[name[at:]] {
				counts[name[:at]]++
			}
			dot := strings.IndexByte(name[at:], '.')
			if dot < 0 {
				break
			}
			at += dot + 1
		}
	}
	best := ""
	for prefix, n := range counts {
		if m := counts[best]; n > m || n == m && (len(prefix) < len(best) || len(prefix) == len(best) && prefix < best) {
			best = prefix
		}
	}
	return best
}
