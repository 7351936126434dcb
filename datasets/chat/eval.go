package chat

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// undefined is the value of a name or a key that there is not.
type undefined struct{}

// namespace keeps what is set in a loop.
type namespace struct{ values map[string]any }

// env is a rendering under way.
type env struct {
	ctx   context.Context
	vars  []map[string]any // the innermost last
	out   strings.Builder
	marks [][2]int
	work  int
	jump  string // break or continue that is under way
}

// workOfLook is the work after which a rendering looks whether its context has ended.
const workOfLook = 1 << 10

// spend uses up work.
func (e *env) spend(line, n int) {
	before := e.work
	if e.work += n; before/workOfLook != e.work/workOfLook && e.ctx.Err() != nil {
		panic(ended{context.Cause(e.ctx)})
	}
	if e.work > mostWork {
		fail(line, "the template does not end: it takes more than %d steps", mostWork)
	}
}

// bounded refuses a number of bytes that no conversation needs.
func bounded(line, n int) {
	if n > mostBytes {
		fail(line, "the text does not end: it has more than %d MiB", mostBytes>>20)
	}
}

// made is a new value, whose size is work.
func (e *env) made(line int, v any) any {
	e.spend(line, 1+size(v))
	return v
}

// size is the work of copying or comparing a value.
func size(v any) (n int) {
	switch x := v.(type) {
	case string:
		n = len(x) / 64
	case []any:
		n = len(x)
	}
	return n
}

func (e *env) write(line int, s string) {
	bounded(line, e.out.Len()+len(s))
	e.spend(line, 1+size(s))
	e.out.WriteString(s)
}

// run runs nodes until one jumps out of its loop.
func (e *env) run(list []node) {
	for _, n := range list {
		if n(e); e.jump != "" {
			return
		}
	}
}

func (e *env) get(name string) any {
	for _, scope := range slices.Backward(e.vars) {
		if v, ok := scope[name]; ok {
			return v
		}
	}
	return undefined{}
}

// loop runs body for the items that keep keeps. What it sets is gone after each.
func (e *env) loop(line int, name string, items []any, keep expr, body []node) {
	defer func(n int) { e.vars = e.vars[:n] }(len(e.vars))
	e.vars = append(e.vars, nil)
	scope := func(item any) map[string]any {
		e.spend(line, 5)
		e.vars[len(e.vars)-1] = map[string]any{name: item}
		return e.vars[len(e.vars)-1]
	}
	if keep != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(item any) bool {
			scope(item)
			return !truth(keep(e))
		})
	}
	for i, n := 0, len(items); i < n; i++ {
		loop := Dict{"index": int64(i + 1), "index0": int64(i), "length": int64(n), "first": i == 0, "last": i == n-1,
			"revindex": int64(n - i), "revindex0": int64(n - i - 1)}
		if i > 0 {
			loop["previtem"] = items[i-1]
		}
		if i < n-1 {
			loop["nextitem"] = items[i+1]
		}
		scope(items[i])["loop"] = loop
		e.run(body)
		jump := e.jump
		if e.jump = ""; jump == "break" {
			return
		}
	}
}

// items are the parts of a value.
func (e *env) items(line int, v any) (out []any) {
	switch x := v.(type) {
	case []any:
		return x
	case string:
		e.spend(line, len(x))
		for _, r := range x {
			out = append(out, string(r))
		}
	case undefined:
	default:
		fail(line, "%s is no list", kindOf(v))
	}
	return out
}

// text is a value as it is written.
func (e *env) text(line int, v any) string {
	switch x := v.(type) {
	case string:
		return x
	case undefined:
		return ""
	case nil:
		return "None"
	case bool:
		return map[bool]string{false: "False", true: "True"}[x]
	case int64:
		return strconv.FormatInt(x, 10)
	}
	fail(line, "%s is no text: use tojson or join", kindOf(v))
	return ""
}

// truth is whether a value counts as true, as in Python.
func truth(v any) bool {
	switch x := v.(type) {
	case undefined, nil:
		return false
	case bool:
		return x
	case string:
		return x != ""
	case int64:
		return x != 0
	case []any:
		return len(x) > 0
	case Dict:
		return len(x) > 0
	}
	return true
}

// kindOf names the kind of a value in errors.
func kindOf(v any) string {
	switch v.(type) {
	case undefined:
		return "an undefined value"
	case nil:
		return "none"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case Dict:
		return "a mapping"
	case *namespace:
		return "a namespace"
	}
	return "a number"
}

// item is of.key or of[key].
func (e *env) item(line int, of, key any) any {
	e.spend(line, 1)
	name, named := key.(string)
	var v any
	ok := false
	switch x := of.(type) {
	case Dict:
		v, ok = x[name]
	case *namespace:
		v, ok = x.values[name]
	case []any, string:
		i, isInt := key.(int64)
		items := e.items(line, x)
		if i < 0 {
			i += int64(len(items))
		}
		if ok = isInt && i >= 0 && i < int64(len(items)); ok {
			v = items[i]
		}
	default:
		fail(line, "%s has no %q", kindOf(of), e.text(line, key))
	}
	if !ok || !named && kindOf(of) == "a mapping" {
		return undefined{}
	}
	return v
}

// slice is of[from:to].
func (e *env) slice(line int, of, from, to any) any {
	items := e.items(line, of)
	bound := func(v any, none int) int {
		i, ok := v.(int64)
		switch {
		case v == nil:
			return none
		case !ok:
			fail(line, "%s is no index", kindOf(v))
		case i < 0:
			i += int64(len(items))
		}
		return int(max(0, min(i, int64(len(items)))))
	}
	a, b := bound(from, 0), bound(to, len(items))
	items = items[a:max(a, b)]
	if _, isText := of.(string); isText {
		return e.join(line, items, "")
	}
	return items
}

// operate is a op b.
func (e *env) operate(line int, op string, a, b any) any {
	e.spend(line, size(a)+size(b))
	switch op {
	case "and", "or":
		return b
	case "==", "!=":
		return e.equal(line, a, b) == (op == "==")
	case "in", "not":
		return e.has(line, b, a) == (op == "in")
	case "~":
		a, b, op = e.text(line, a), e.text(line, b), "+"
	}
	s, isText := a.(string)
	t, both := b.(string)
	x, isInt := a.(int64)
	y, ints := b.(int64)
	if isText && both && op == "+" {
		bounded(line, len(s)+len(t))
		return s + t
	}
	if !isInt || !ints {
		fail(line, "%s %s %s is not supported", kindOf(a), op, kindOf(b))
	}
	switch op {
	case "<":
		return x < y
	case ">":
		return x > y
	case "<=":
		return x <= y
	case ">=":
		return x >= y
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	if y == 0 {
		fail(line, "a division by 0")
	}
	rest := (x%y + y) % y // has the sign of y, as in Python
	if op == "%" {
		return rest
	}
	return (x - rest) / y
}

// has reports whether a value contains another one.
func (e *env) has(line int, in, v any) bool {
	name, isText := v.(string)
	switch x := in.(type) {
	case string:
		return isText && strings.Contains(x, name)
	case Dict:
		_, ok := x[name]
		return isText && ok
	case []any:
		return slices.ContainsFunc(x, func(item any) bool { return e.equal(line, item, v) })
	}
	return false
}

func (e *env) equal(line int, a, b any) bool {
	e.spend(line, 1)
	x, isList := a.([]any)
	y, lists := b.([]any)
	m, isDict := a.(Dict)
	n, dicts := b.(Dict)
	switch {
	case isList && lists:
		return slices.EqualFunc(x, y, func(a, b any) bool { return e.equal(line, a, b) })
	case isDict && dicts:
		return maps.EqualFunc(m, n, func(a, b any) bool { return e.equal(line, a, b) })
	case isList || lists || isDict || dicts:
		return false
	}
	return a == b
}
