package initial

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// fit is how the tensors of a file fit the weights of a model. Its text has a reason once, with a
// few names, and never all of a large model.
type fit struct {
	source  Source
	all     int      // parameters of the model
	taken   int      // those that the file gives
	unknown int      // tensors of the file that the model has not
	skipped []string // patterns
	missing []string // names in the file
	other   []string // with both shapes
	wrong   string   // the first of the model's own names among these
}

// mostNamed are the weights that a reason names.
const mostNamed = 3

// fitOf compares the file with the model.
func (x *Values) fitOf(vars []*graph.Value) *fit {
	f := &fit{source: x.source, skipped: x.source.Skip}
	known := map[string]bool{}
	for _, name := range x.inFile {
		known[name] = true
	}
	for _, v := range vars {
		if v.Role != graph.Parameter || !weight(v) {
			continue
		}
		f.all++
		if x.source.Skips(v.Name) {
			continue
		}
		name := x.source.Prefix + v.Name
		have, ok := x.lookup(v.Name)
		if f.wrong == "" && !(ok && have.Shape.Equal(v.Meta.Shape)) {
			f.wrong = v.Name
		}
		switch {
		case !ok:
			f.missing = append(f.missing, name)
		case !have.Shape.Equal(v.Meta.Shape):
			f.other = append(f.other, fmt.Sprintf("%s is %v, the model has %v", name, have.Shape, v.Meta.Shape))
		default:
			f.taken++
		}
	}
	for _, name := range x.names() {
		if !known[name] {
			f.unknown++
		}
	}
	return f
}

// whole refuses a file with more layers than the base of an adapter: an adapter that is trained beside
// the first of them suits no model. Other models may begin with a part of a file.
func (x *Values) whole(vars []*graph.Value) error {
	if x.inFile == nil || len(BaseVars(vars)) == 0 {
		return nil
	}
	alike, known := map[string]bool{}, map[string]bool{} // names without the numbers of layers
	for _, name := range x.inFile {
		alike[numbered.ReplaceAllString(name, ".#.")], known[name] = true, true
	}
	var more []string
	for _, name := range x.names() {
		if like := numbered.ReplaceAllString(name, ".#."); like != name && alike[like] && !known[name] && !x.source.Skips(strings.TrimPrefix(name, x.source.Prefix)) {
			more = append(more, name)
		}
	}
	if len(more) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s has more layers than the model (%s): an adapter is trained beside a whole model; give the model as many layers as the file has", ErrInit, x.source.File, some(more, ", "))
}

// numbered is the number of a layer in a name.
var numbered = regexp.MustCompile(`\.\d+\.`)

// err says why the file does not fit; nil where it does.
func (f *fit) err() error {
	var list []string
	if n := len(f.other); n > 0 {
		list = append(list, fmt.Sprintf("%s of another shape: %s", count(n), some(f.other, "; ")))
	}
	if n := len(f.missing); n > 0 {
		list = append(list, fmt.Sprintf("%s missing: %s", count(n), some(f.missing, ", ")))
	}
	if len(list) == 0 {
		return nil
	}
	cure := "begin with weights of the same model"
	if f.taken > 0 {
		cure = "give those that are to begin anew as skip, as in {file: " + f.source.File + ", skip: [" + f.wrong + "]}"
	}
	return errors.New(strings.Join(append(list, cure), "; "))
}

// count is "1 weight is" or "2 weights are".
func count(n int) string {
	if n == 1 {
		return "1 weight is"
	}
	return fmt.Sprintf("%d weights are", n)
}

// some is a list, cut short.
func some(list []string, between string) string {
	if n := len(list) - mostNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNamed], between), n)
	}
	return strings.Join(list, between)
}

// String says what of the file was taken, where that is not all as it is: "w.safetensors: 148 of 150 tensors; head.* left out as
// asked".
func (f *fit) String() string {
	var list []string
	if p := f.source.Prefix; p != "" {
		list = append(list, "named "+p+"*")
	}
	if len(f.skipped) > 0 {
		list = append(list, some(f.skipped, ", ")+" left out as asked")
	}
	if f.unknown > 0 {
		list = append(list, fmt.Sprintf("%d in the file that the model has not", f.unknown))
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d tensors; %s", f.source.File, f.taken, f.all, strings.Join(list, "; "))
}
