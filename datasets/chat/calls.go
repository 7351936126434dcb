package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Dict is a mapping.
type Dict map[string]any

// text is argument i, a string; none if it is not given.
func (a args) text(line, i int, none string) string {
	if i >= len(a.values) {
		return none
	}
	s, ok := a.values[i].(string)
	if !ok {
		fail(line, "an argument is %s: give a string", kindOf(a.values[i]))
	}
	return s
}

// most refuses arguments beyond so many, and those with names.
func (a args) most(line int, of string, n int) {
	if len(a.names) > 0 || len(a.values) > n {
		fail(line, "%s is supported with at most %d arguments, without names", of, n)
	}
}

// call calls a function.
func (e *env) call(line int, name string, a args) any {
	switch name {
	case "namespace":
		if len(a.names) != len(a.values) {
			fail(line, "namespace with arguments without names is not supported")
		}
		ns := &namespace{map[string]any{}}
		for i, name := range a.names {
			ns.values[name] = a.values[i]
		}
		return ns
	case "raise_exception":
		fail(line, "the template refuses the conversation: %s", a.text(line, 0, ""))
	case "range":
		a.most(line, name, 2)
		from, to := int64(0), int64(0)
		for _, v := range a.values {
			n, ok := v.(int64)
			if !ok {
				fail(line, "range of %s: give numbers", kindOf(v))
			}
			from, to = to, n
		}
		var out []any
		for ; from < to; from++ {
			e.spend(line, 1)
			out = append(out, from)
		}
		return out
	case "strftime_now":
		fail(line, "strftime_now is not supported: the samples would change with the date")
	}
	fail(line, "the function %q is not supported", name)
	return nil
}

// filter is v|name(a).
func (e *env) filter(line int, name string, v any, a args) any {
	switch name {
	case "default":
		a.most(line, name, 1)
		if _, none := v.(undefined); none && len(a.values) == 1 {
			return a.values[0]
		}
		return v
	case "tojson":
		a.most(line, name, 0)
		return e.json(line, v)
	case "length":
		if d, ok := v.(Dict); ok {
			return int64(len(d))
		}
		return int64(len(e.items(line, v)))
	case "join":
		a.most(line, name, 1)
		return e.join(line, e.items(line, v), a.text(line, 0, ""))
	case "trim", "upper", "lower":
		return e.method(line, e.text(line, v), map[string]string{"trim": "strip", "upper": "upper", "lower": "lower"}[name], a)
	}
	fail(line, "the filter %q is not supported", name)
	return nil
}

func (e *env) join(line int, items []any, with string) string {
	list, n := make([]string, len(items)), 0
	for i, item := range items {
		list[i] = e.text(line, item)
		n += len(list[i]) + len(with)
		bounded(line, n)
	}
	return strings.Join(list, with)
}

// method is of.name(a).
func (e *env) method(line int, of any, name string, a args) any {
	s, ok := of.(string)
	if !ok {
		fail(line, "the method %q of %s is not supported", name, kindOf(of))
	}
	a.most(line, name, 1)
	e.spend(line, size(s))
	x, all := a.text(line, 0, ""), len(a.values) == 0
	switch {
	case name == "upper":
		return strings.ToUpper(s)
	case name == "lower":
		return strings.ToLower(s)
	case name == "startswith":
		return strings.HasPrefix(s, x)
	case name == "endswith":
		return strings.HasSuffix(s, x)
	case name == "split" && x != "":
		var out []any
		for _, part := range strings.Split(s, x) {
			out = append(out, part)
		}
		return out
	}
	inside := func(r rune) bool { return all && isSpace(r) || strings.ContainsRune(x, r) }
	switch name {
	case "strip":
		return strings.TrimFunc(s, inside)
	case "lstrip":
		return strings.TrimLeftFunc(s, inside)
	case "rstrip":
		return strings.TrimRightFunc(s, inside)
	}
	fail(line, "the method %q of a string is not supported", name)
	return nil
}

// test is v is name.
func test(line int, name string, v any) bool {
	_, isUndefined := v.(undefined)
	switch name {
	case "defined":
		return !isUndefined
	case "undefined":
		return isUndefined
	case "none":
		return v == nil
	case "string", "mapping":
		return kindOf(v) == "a "+name
	case "iterable":
		return slices.Contains([]string{"a string", "a list", "a mapping"}, kindOf(v))
	}
	fail(line, "the test %q is not supported", name)
	return false
}

// json is a value but a mapping as Python's json.dumps writes it, without escapes of what is not ASCII.
func (e *env) json(line int, v any) string {
	e.spend(line, 1+size(v))
	switch x := v.(type) {
	case []any:
		list := make([]any, len(x))
		for i, item := range x {
			list[i] = e.json(line, item)
		}
		return "[" + e.join(line, list, ", ") + "]"
	case string:
		var b bytes.Buffer
		w := json.NewEncoder(&b)
		w.SetEscapeHTML(false)
		w.Encode(x) // a string always encodes
		return strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
	case nil:
		return "null"
	case bool:
		return map[bool]string{false: "false", true: "true"}[x]
	case int64:
		return e.text(line, x)
	case json.Number:
		return x.String()
	}
	fail(line, "tojson of %s: give a string, a number or a list", kindOf(v))
	return ""
}

// Value reads a JSON value as templates take it: strings, bools, int64, nil, []any and
// [Dict], and numbers that are not whole as json.Number.
func Value(b []byte) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return converted(v), nil
}

// converted is a decoded JSON value in our types.
func converted(v any) any {
	switch x := v.(type) {
	case map[string]any:
		d := Dict{}
		for k, v := range x {
			d[k] = converted(v)
		}
		return d
	case []any:
		for i := range x {
			x[i] = converted(x[i])
		}
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
	}
	return v
}
