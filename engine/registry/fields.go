package registry

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Field is a key of an [Entry], which is a field of its Keys.
type Field struct {
	Name  string       // of the key
	Field string       // of the struct
	Index []int        // of the field, as reflect's FieldByIndex takes it
	Type  reflect.Type // of the field
	Doc   string

	// Bounds belong to the valid values, unless Over or Under is true. They are of a number,
	// or of each number in a list.
	Min, Max    float64
	Over, Under bool
	Items       int      // a list has at least that many
	Words       []string // the valid texts; nil: all are
	Word        string   // stands for the number WordIs; "": there is none
	WordIs      int

	Optional bool // the zero value stands for a key that is not given
	Inverted bool // the key is true where the field is false
	Nested   bool // the key is a list of layers, which a config keeps apart from the struct
}

// Bounded reports whether the field has a lower bound, and an upper one.
func (f Field) Bounded() (below, above bool) {
	return f.Min > -math.MaxFloat64, f.Max < math.MaxFloat64
}

// in reports whether a number is valid.
func (f Field) in(v float64) bool {
	return f.Word != "" && v == float64(f.WordIs) || v >= f.Min && v <= f.Max && !(f.Over && v == f.Min) && !(f.Under && v == f.Max)
}

// Holds reports whether the field has a valid value in these keys, which are a struct. A
// default that is not valid means that the key must be given.
func (f Field) Holds(keys any) bool { return f.holds(reflect.ValueOf(keys)) }

func (f Field) holds(keys reflect.Value) bool {
	switch v := keys.FieldByIndex(f.Index); {
	case f.Nested:
		return f.Items == 0
	case f.Optional && v.IsZero():
		return true
	case v.Kind() == reflect.Int:
		return f.in(float64(v.Int()))
	case v.Kind() == reflect.Float64:
		return f.in(v.Float())
	case v.Kind() == reflect.String:
		return f.Words == nil || slices.Contains(f.Words, v.String())
	case v.Kind() == reflect.Slice:
		return v.Len() >= f.Items
	case f.Type == weightsType:
		return f.weighs(v.Interface().(Weights))
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			if !f.in(v.Index(i).Float()) {
				return false
			}
		}
	}
	return true
}

// expect describes the valid values, as in "give it a number of at least 1".
func (f Field) expect() string {
	if f.Words != nil && f.Type != weightsType {
		return "use one of " + strings.Join(f.Words, ", ")
	}
	t := f.Type
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() == reflect.Int {
		return "give it " + WholeText(f.Wholes())
	}
	var bounds []string
	below, above := f.Bounded()
	if below {
		bounds = append(bounds, fmt.Sprintf("%s %v", either(f.Over, "above", "of at least"), f.Min))
	}
	if above {
		bounds = append(bounds, fmt.Sprintf("%s %v", either(f.Under, "below", "at most"), f.Max))
	}
	number := "a number " + strings.Join(bounds, " and ")
	if f.Type == weightsType {
		return "use " + strings.Join(f.Words, " or ") + ", or give each name " + number
	}
	return "give it " + number
}

// Wholes are the least and the largest whole number that the bounds let in, at most
// [MostWhole] from 0.
func (f Field) Wholes() (least, most int) {
	low, high := math.Ceil(f.Min), math.Floor(f.Max)
	if f.Over && low == f.Min {
		low++
	}
	if f.Under && high == f.Max {
		high--
	}
	return int(max(-MostWhole, low)), int(min(MostWhole, high))
}

// MostWhole is the largest whole number of a key, and the end of a range without an end.
const MostWhole = math.MaxInt32

// WholeText describes the whole numbers of a range.
func WholeText(least, most int) string {
	switch below, above := least > -MostWhole, most < MostWhole; {
	case below && above:
		return fmt.Sprintf("a whole number from %d to %d", least, most)
	case below:
		return fmt.Sprintf("a whole number of at least %d", least)
	case above:
		return fmt.Sprintf("a whole number of at most %d", most)
	}
	return "a whole number"
}

func either(is bool, one, other string) string {
	if is {
		return one
	}
	return other
}

// fieldTypes are the types of keys.
var fieldTypes = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[string](),
	reflect.TypeFor[[]int](), reflect.TypeFor[[]string](), reflect.TypeFor[[2]float64](),
	weightsType,
}

// Fields lists the keys that a struct describes. All its fields are exported, and each
// is a bool, an int, a float64, a string, a list of ints or strings, a pair of float64,
// [Weights], or an embedded struct of such fields. Its tags are
//
//	yaml:"NAME"           the key's name; "-": the field is no key, for Go code alone
//	yaml:"NAME,omitempty" the key may be left out, and its zero value is then not written
//	yaml:"NAME,not"       the key is true where the field is false
//	yaml:"NAME,nested"    the key is a list of layers
//	doc:"MEANING"         'word' stands for a word of code
//	min:"0" max:"1"       bounds of a number, or of each in a list; above, below: not valid themselves
//	items:"1"             a list has at least that many
//	words:"relu tanh"     the valid texts; of Weights, the words in place of numbers
//	word:"same=-1"        a word that stands for a number
//
// A key whose value in the defaults is not valid must be given.
func Fields(keys any) ([]Field, error) {
	t := reflect.TypeOf(keys)
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the keys are a %v: give a struct", t)
	}
	if list, ok := known.Load(t); ok {
		return list.([]Field), nil
	}
	list, err := fieldsOf(t, nil, nil)
	if err == nil {
		known.Store(t, list)
	}
	return list, err
}

// known has the fields of types that were read.
var known sync.Map

// fieldsOf appends the fields of a struct, which is at an index of the keys.
func fieldsOf(t reflect.Type, at []int, list []Field) ([]Field, error) {
	for i := range t.NumField() {
		s, index := t.Field(i), append(slices.Clone(at), i)
		if s.Anonymous && s.Type.Kind() == reflect.Struct {
			var err error
			if list, err = fieldsOf(s.Type, index, list); err != nil {
				return nil, err
			}
			continue
		}
		f, err := fieldOf(s)
		switch {
		case err != nil:
			return nil, fmt.Errorf("field %s of %v: %w", s.Name, t, err)
		case f.Name == "-":
			continue
		case slices.ContainsFunc(list, func(o Field) bool { return o.Name == f.Name }):
			return nil, fmt.Errorf("two fields of %v are the key %q", t, f.Name)
		}
		f.Index = index
		list = append(list, f)
	}
	return list, nil
}

func fieldOf(s reflect.StructField) (Field, error) {
	name, options, _ := strings.Cut(s.Tag.Get("yaml"), ",")
	f := Field{Name: name, Field: s.Name, Type: s.Type, Doc: code.ReplaceAllString(s.Tag.Get("doc"), "$1`$2`"), Min: -math.MaxFloat64, Max: math.MaxFloat64}
	switch {
	case !s.IsExported():
		return f, fmt.Errorf("it is not exported: begin its name with a capital")
	case name == "-":
		return f, nil
	case !validName.MatchString(name):
		return f, fmt.Errorf("its key is %q: give it a tag such as `yaml:\"beta\"`, of lower-case letters, digits and '_'", name)
	}
	if err := f.option(options); err != nil {
		return f, err
	}
	if !f.Nested && !slices.Contains(fieldTypes, s.Type) {
		return f, fmt.Errorf("it is a %v: use bool, int, float64, string, []int, []string, [2]float64 or registry.Weights", s.Type)
	}
	return f, f.values(s.Tag)
}

// code finds 'word' in the doc of a key.
var code = regexp.MustCompile(`(^|[^\w])'([^' ]+)'`)

// option takes what stands behind the key's name.
func (f *Field) option(options string) error {
	for _, o := range strings.Fields(strings.ReplaceAll(options, ",", " ")) {
		switch {
		case o == "omitempty":
			f.Optional = true
		case o == "not" && f.Type.Kind() == reflect.Bool:
			f.Inverted = true
		case o == "nested" && f.Type.Kind() == reflect.Slice:
			f.Nested = true
		default:
			return fmt.Errorf("its tag yaml has the unknown option %q: use omitempty, not (for a bool) or nested (for a list)", o)
		}
	}
	return nil
}

// values takes the tags about valid values.
func (f *Field) values(tag reflect.StructTag) error {
	for name, b := range map[string]struct {
		at   *float64
		open *bool
	}{"min": {&f.Min, nil}, "above": {&f.Min, &f.Over}, "max": {&f.Max, nil}, "below": {&f.Max, &f.Under}} {
		text, ok := tag.Lookup(name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !numeric(f.Type) || f.Nested {
			return fmt.Errorf("its tag %s is %q: a bound is a number, and only an int or a float64 has one", name, text)
		}
		if *b.at = v; b.open != nil {
			*b.open = true
		}
	}
	if text, ok := tag.Lookup("items"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || f.Type.Kind() != reflect.Slice {
			return fmt.Errorf("its tag items is %q: give a number, and only to a list", text)
		}
		f.Items = n
	}
	if text, ok := tag.Lookup("words"); ok {
		if f.Words = strings.Fields(text); len(f.Words) == 0 || f.Type.Kind() != reflect.String && f.Type != weightsType {
			return fmt.Errorf("its tag words is %q: it is a list of words, and only a string or Weights has one", text)
		}
	}
	if text, ok := tag.Lookup("word"); ok {
		word, number, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		if err != nil || word == "" || f.Type.Kind() != reflect.Int {
			return fmt.Errorf("its tag word is %q: write a word and the number that it stands for, as in same=-1; only an int has this tag", text)
		}
		f.Word, f.WordIs = word, n
	}
	return nil
}

// numeric reports whether a type is of numbers.
func numeric(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Float64:
		return true
	case reflect.Slice, reflect.Array:
		return numeric(t.Elem())
	}
	return t == weightsType
}
