package pretrained

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// object is a JSON object whose keys are read one by one. The first mistake is
// kept, with its place; later reads give defaults.
type object struct {
	path string
	text []byte
	keys map[string]value
	err  error
}

// value is the text of a key's value.
type value struct {
	raw json.RawMessage
	at  int // offset of the key in the file
}

// readObject reads the object that a file's text is.
func readObject(path string, text []byte) (*object, error) {
	o := &object{path: path, text: text, keys: map[string]value{}}
	dec := json.NewDecoder(bytes.NewReader(text))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, o.broken(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, o.broken(err)
		}
		key := name.(string)
		at := int(dec.InputOffset()) - len(key) - len(`""`)
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, o.broken(err)
		}
		o.keys[key] = value{v, at}
	}
	if _, err := dec.Token(); err != nil {
		return nil, o.broken(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, bad(o.place(int(dec.InputOffset())), "text after the object")
	}
	return o, nil
}

// broken is the error of text that is not an object.
func (o *object) broken(err error) error {
	at := 0
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at = int(syntax.Offset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return bad(o.place(len(o.text)), "the file ends too early: copy it again")
	case err == nil:
		return bad(o.place(0), "expected a JSON object")
	}
	return bad(o.place(at), "%v: expected a JSON object", err)
}

// place is "path:line:column" of an offset.
func (o *object) place(at int) string {
	before := o.text[:min(max(at, 0), len(o.text))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("%s:%d:%d", o.path, line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// has reports whether a key is there with a value other than null.
func (o *object) has(key string) bool {
	v, ok := o.keys[key]
	return ok && string(v.raw) != "null"
}

// fail keeps a mistake about a key, unless there was one before.
func (o *object) fail(key, format string, args ...any) {
	if o.err != nil {
		return
	}
	path := o.path
	if v, ok := o.keys[key]; ok {
		path = o.place(v.at)
	}
	o.err = bad(path, "%s: %s", key, fmt.Sprintf(format, args...))
}

// read reads a key's value into dst, which keeps its default without one.
func (o *object) read(key, expected string, dst any) {
	if v := o.keys[key]; o.has(key) && json.Unmarshal(v.raw, dst) != nil {
		o.fail(key, "got %.40s, expected %s", v.raw, expected)
	}
}

// whole reads a number from 1 to most.
func (o *object) whole(key string, byDefault, most int) int {
	n := byDefault
	expected := fmt.Sprintf("a whole number from 1 to %d", most)
	o.read(key, expected, &n)
	if n < 1 || n > most {
		o.fail(key, "got %d, expected %s", n, expected)
		return byDefault
	}
	return n
}

// share reads a number of at least 0 and below 1.
func (o *object) share(key string, byDefault float64) float64 {
	const expected = "a number of at least 0 and below 1"
	x := byDefault
	o.read(key, expected, &x)
	if !(x >= 0 && x < 1) {
		o.fail(key, "got %v, expected %s", x, expected)
		return byDefault
	}
	return x
}

// above reads a number above 0.
func (o *object) above(key string, byDefault float64) float64 {
	const expected = "a number above 0"
	x := byDefault
	o.read(key, expected, &x)
	if !(x > 0 && x <= math.MaxFloat64) {
		o.fail(key, "got %v, expected %s", x, expected)
		return byDefault
	}
	return x
}

// flag reads true or false.
func (o *object) flag(key string, byDefault bool) bool {
	x := byDefault
	o.read(key, "true or false", &x)
	return x
}

// indented is the JSON of a mapping as transformers writes it: sorted by key, two
// spaces, no escapes for HTML.
func indented(m map[string]any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(m)
	return b.Bytes(), err
}
