package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/internal/panics"
)

// Field is a key of an [Entry], which is a field of its Keys.
type Field struct {
	Name     string   // of the key: the tag `yaml`
	Field    string   // of the struct
	Index    int      // of the struct's field
	Doc      string   // the tag `doc`
	Min, Max *float64 // the tags `min` and `max`, which belong to the valid values; nil: no bound
}

// Holds reports whether the field has a valid value in these keys. A default that is not
// valid means that the key must be given.
func (f Field) Holds(keys any) bool {
	var v float64
	switch x := reflect.ValueOf(keys).Field(f.Index); x.Kind() {
	case reflect.Int:
		v = float64(x.Int())
	case reflect.Float64:
		v = x.Float()
	default:
		return true
	}
	return !(f.Min != nil && v < *f.Min) && !(f.Max != nil && v > *f.Max)
}

// fieldTypes are the types of keys.
var fieldTypes = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[string](),
	reflect.TypeFor[[]int](), reflect.TypeFor[[]string](),
}

// Fields lists the keys that a struct describes. All its fields are exported, and each
// is a bool, an int, a float64, a string, or a list of ints or strings. Its tags are
// `yaml:"NAME"`, the key's name, and if wanted `doc:"MEANING"` and, for numbers,
// `min:"0"` and `max:"1"`. A key whose value is outside these bounds has no default.
func Fields(keys any) ([]Field, error) {
	t := reflect.TypeOf(keys)
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the keys are a %v: give a struct", t)
	}
	var list []Field
	for i := range t.NumField() {
		f, err := fieldOf(t.Field(i))
		if err != nil {
			return nil, fmt.Errorf("field %s of %v: %w", t.Field(i).Name, t, err)
		}
		f.Index = i
		if slices.ContainsFunc(list, func(o Field) bool { return o.Name == f.Name }) {
			return nil, fmt.Errorf("two fields of %v are the key %q", t, f.Name)
		}
		list = append(list, f)
	}
	return list, nil
}

func fieldOf(s reflect.StructField) (Field, error) {
	f := Field{Name: s.Tag.Get("yaml"), Field: s.Name, Doc: s.Tag.Get("doc")}
	switch {
	case !s.IsExported():
		return f, fmt.Errorf("it is not exported: begin its name with a capital")
	case !validName.MatchString(f.Name):
		return f, fmt.Errorf("its key is %q: give it a tag such as `yaml:\"beta\"`, of lower-case letters, digits and '_'", f.Name)
	case !slices.Contains(fieldTypes, s.Type):
		return f, fmt.Errorf("it is a %v: use bool, int, float64, string, []int or []string", s.Type)
	}
	for tag, bound := range map[string]**float64{"min": &f.Min, "max": &f.Max} {
		text, ok := s.Tag.Lookup(tag)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if number := s.Type.Kind() == reflect.Int || s.Type.Kind() == reflect.Float64; err != nil || !number {
			return f, fmt.Errorf("its tag %s is %q: bounds are numbers, and only of an int or a float64", tag, text)
		}
		*bound = &v
	}
	return f, nil
}

// New is a pointer to a copy of the entry's Keys.
func (e Entry) New() any {
	p := reflect.New(reflect.TypeOf(e.Keys))
	p.Elem().Set(reflect.ValueOf(e.Keys))
	return p.Interface()
}

// KeysOf is the keys that a caller has given as a K or a *K, or the defaults where they
// are nil. Keys with a method Check() error are checked.
func KeysOf[K any](given any, defaults K) (K, error) {
	keys := defaults
	switch g := given.(type) {
	case nil:
	case K:
		keys = g
	case *K:
		keys = *g
	default:
		return keys, fmt.Errorf("its keys are a %T: give a %T", given, defaults)
	}
	return keys, Check(&keys)
}

// Check calls the method Check of keys, if they have one. keys is a pointer. A panic of
// the method is an error.
func Check(keys any) (err error) {
	if c, ok := keys.(interface{ Check() error }); ok {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the method Check of its keys panicked: %s", panics.Text(r))
			}
		}()
		return c.Check()
	}
	return nil
}

// Value is what a pointer to keys points to, and keys that are no pointer as they are.
func Value(keys any) any {
	if v := reflect.ValueOf(keys); v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem().Interface()
	}
	return keys
}
