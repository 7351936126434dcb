package registry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/berth-ml/berth/internal/panics"
)

// New is a pointer to a copy of the entry's Keys.
func (e Entry) New() any {
	p := reflect.New(reflect.TypeOf(e.Keys))
	p.Elem().Set(reflect.ValueOf(e.Keys))
	return p.Interface()
}

// Pointer is a pointer to keys of the entry: the given one, or one to a copy of what was
// given, or of the defaults where that is nil. ok is false where the given keys are of
// another type.
func (e Entry) Pointer(given any) (keys any, ok bool) {
	switch t := reflect.TypeOf(e.Keys); reflect.TypeOf(given) {
	case nil:
		return e.New(), true
	case reflect.PointerTo(t):
		return given, true
	case t:
		e.Keys = given
		return e.New(), true
	}
	return e.New(), false
}

// KeysOf is the keys that Go code has given as a K or a *K, or the defaults where they are
// nil. A zero that is no valid value means the default. Other values that are not valid are
// an error, and so is what the keys' own method refuses: see [Settle].
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
	if err := fill(reflect.ValueOf(&keys).Elem(), reflect.ValueOf(defaults)); err != nil {
		return keys, err
	}
	if err := Settle(&keys); err != nil {
		return keys, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return keys, nil
}

// fill puts defaults in place of zeros that are not valid, and refuses other values that
// are not. Lists are left to those who read them.
func fill(keys, defaults reflect.Value) error {
	if keys.Kind() != reflect.Struct {
		return nil // not the keys of an entry
	}
	fields, err := Fields(keys.Interface())
	if err != nil {
		return err
	}
	for _, f := range fields {
		v := keys.FieldByIndex(f.Index)
		if f.Nested || v.Kind() == reflect.Slice || f.holds(keys) {
			continue
		}
		if v.IsZero() && f.holds(defaults) {
			v.Set(defaults.FieldByIndex(f.Index))
			continue
		}
		if v.Kind() == reflect.String {
			return fmt.Errorf("%s is %q: %s", f.Name, v.Interface(), f.expect())
		}
		return fmt.Errorf("%s is %v: %s", f.Name, v.Interface(), f.expect())
	}
	return nil
}

// Settle calls the methods of keys that know several of them. A method Check() error
// refuses what bounds cannot say: with [Refuse], it names the key, and errors.Join has
// several. A method Resolve() sets
// keys that follow from others. keys is a pointer. A panic of Check is an error.
func Settle(keys any) (err error) {
	if c, ok := keys.(interface{ Check() error }); ok {
		if err := check(c); err != nil {
			return err
		}
	}
	if r, ok := keys.(interface{ Resolve() }); ok {
		r.Resolve()
	}
	return nil
}

func check(c interface{ Check() error }) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the method Check of its keys panicked: %s", panics.Text(r))
		}
	}()
	return c.Check()
}

// KeyError is an error about one key.
type KeyError struct{ Key, Text string }

func (e *KeyError) Error() string { return e.Key + ": " + e.Text }

// Refuse is an error of a method Check about a key: what is wrong with its value, and what
// to do.
func Refuse(key, format string, args ...any) error {
	return &KeyError{key, fmt.Sprintf(format, args...)}
}

// Value is what a pointer to keys points to, and keys that are no pointer as they are.
func Value(keys any) any {
	if v := reflect.ValueOf(keys); v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem().Interface()
	}
	return keys
}

// Get is the value of a key by its name. ok is false where the keys, a struct or a pointer
// to one, have none of that name.
func Get(keys any, name string) (value any, ok bool) {
	if keys = Value(keys); keys == nil {
		return nil, false
	}
	fields, err := Fields(keys)
	if err != nil {
		return nil, false
	}
	for _, f := range fields {
		if f.Name == name {
			return reflect.ValueOf(keys).FieldByIndex(f.Index).Interface(), true
		}
	}
	return nil, false
}
