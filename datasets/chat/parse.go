package chat

import "slices"

// node writes a part of a template, or changes variables. expr computes a value.
type (
	node func(*env)
	expr func(*env) any
)

// parser turns tokens into functions.
type parser struct {
	tokens []token
	at     int
	depth  int // of blocks and brackets in each other
	loops  int // around
	marks  bool
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) take() token {
	p.at++
	return p.tokens[p.at-1]
}

// is reports whether the next token is one of these operators or names.
func (p *parser) is(words ...string) bool {
	t := p.peek()
	return (t.kind == 'o' || t.kind == 'n') && slices.Contains(words, t.text)
}

func (p *parser) accept(word string) bool {
	ok := p.is(word)
	if ok {
		p.at++
	}
	return ok
}

func (p *parser) want(word string) {
	if !p.accept(word) {
		fail(p.peek().line, "expected %q before %q", word, p.peek().text)
	}
}

// kind takes the next token, which must be of that kind.
func (p *parser) kind(k byte, what string) string {
	t := p.take()
	if t.kind != k {
		fail(t.line, "expected %s before %q", what, t.text)
	}
	return t.text
}

func (p *parser) name() string { return p.kind('n', "a name") }

func (p *parser) end() { p.kind('}', "the end of the tag") }

// deeper guards against templates that are nested too deeply. Its result undoes it.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > mostDepth {
		fail(p.peek().line, "more than %d blocks or brackets in each other: take some out", mostDepth)
	}
	return func() { p.depth-- }
}

// nodes parses up to a block that one of the words begins, which is taken, or to the end.
func (p *parser) nodes(until ...string) (list []node, stop string) {
	defer p.deeper()()
	for from := p.peek().line; ; {
		switch t := p.take(); t.kind {
		case 0:
			if len(until) > 0 {
				fail(from, "the block is not closed by %s", until[len(until)-1])
			}
			return list, ""
		case 't':
			list = append(list, func(e *env) { e.write(t.line, t.text) })
		case '{':
			x := p.expr()
			p.end()
			list = append(list, func(e *env) { e.write(t.line, e.text(t.line, x(e))) })
		default:
			w := p.name()
			if slices.Contains(until, w) {
				return list, w
			}
			list = append(list, p.block(w, t.line))
		}
	}
}

// block parses a block behind its word.
func (p *parser) block(word string, line int) node {
	switch {
	case word == "if":
		return p.ifBlock()
	case word == "for":
		return p.forBlock(line)
	case word == "set":
		return p.set(line)
	case word == "generation":
		p.marks = true
		p.end()
		body, _ := p.nodes("endgeneration")
		p.end()
		return func(e *env) {
			from := e.out.Len()
			e.run(body)
			e.marks = append(e.marks, [2]int{from, e.out.Len()})
		}
	case (word == "break" || word == "continue") && p.loops > 0:
		p.end()
		return func(e *env) { e.jump = word }
	}
	fail(line, "the block %q is not supported: use if, for, set, generation, and break and continue in a loop", word)
	return nil
}

func (p *parser) ifBlock() node {
	defer p.deeper()()
	cond := p.expr()
	p.end()
	body, stop := p.nodes("elif", "else", "endif")
	var rest []node
	switch stop {
	case "elif":
		rest = []node{p.ifBlock()}
	case "else":
		p.end()
		rest, _ = p.nodes("endif")
		p.end()
	default:
		p.end()
	}
	return func(e *env) {
		if truth(cond(e)) {
			e.run(body)
		} else {
			e.run(rest)
		}
	}
}

func (p *parser) forBlock(line int) node {
	name := p.name()
	p.want("in")
	over, keep := p.binary(0), expr(nil)
	if p.accept("if") {
		keep = p.expr()
	}
	p.end()
	p.loops++
	body, _ := p.nodes("endfor")
	p.loops--
	p.end()
	return func(e *env) { e.loop(line, name, e.items(line, over(e)), keep, body) }
}

func (p *parser) set(line int) node {
	name, attr := p.name(), ""
	if p.accept(".") {
		attr = p.name()
	}
	p.want("=")
	x := p.expr()
	p.end()
	return func(e *env) {
		v := x(e)
		if attr == "" {
			e.vars[len(e.vars)-1][name] = v
			return
		}
		ns, ok := e.get(name).(*namespace)
		if !ok {
			fail(line, "%s is no namespace: make it one with namespace()", name)
		}
		ns.values[attr] = v
	}
}

// expr parses an expression, with a if b else c.
func (p *parser) expr() expr {
	defer p.deeper()()
	x := p.binary(0)
	for p.accept("if") {
		cond, then := p.binary(0), x
		other := expr(func(*env) any { return undefined{} })
		if p.accept("else") {
			other = p.expr()
		}
		x = func(e *env) any {
			if truth(cond(e)) {
				return then(e)
			}
			return other(e)
		}
	}
	return x
}

// levels are the binary operators, from those that bind least.
var levels = [][]string{{"or"}, {"and"}, {"==", "!=", "<", ">", "<=", ">=", "in", "not"}, {"+", "-"}, {"~"}, {"*", "//", "%"}}

// binary parses the operators of a level and those that bind more.
func (p *parser) binary(level int) expr {
	if level == len(levels) {
		return p.unary()
	}
	if t := p.peek(); level == 2 && p.accept("not") {
		defer p.deeper()()
		x := p.binary(level)
		return func(e *env) any { return e.made(t.line, !truth(x(e))) }
	}
	x := p.binary(level + 1)
	for row := false; p.is(levels[level]...); row = level == 2 {
		t := p.take()
		if row {
			fail(t.line, "comparisons in a row are not supported: put brackets around the first")
		}
		if t.text == "not" {
			p.want("in")
		}
		a, b := x, p.binary(level+1)
		x = func(e *env) any {
			left := a(e)
			if level < 2 && truth(left) == (t.text == "or") {
				return left
			}
			return e.made(t.line, e.operate(t.line, t.text, left, b(e)))
		}
	}
	return x
}

// unary parses a value with what follows it: attributes, calls, filters and tests.
func (p *parser) unary() expr {
	defer p.deeper()()
	if t := p.peek(); p.accept("-") {
		x := p.unary()
		return func(e *env) any { return e.operate(t.line, "-", int64(0), x(e)) }
	}
	x := p.primary()
	for {
		t := p.peek()
		switch of := x; {
		case p.accept("."):
			name := p.name()
			if p.is("(") {
				args := p.arguments()
				x = func(e *env) any { return e.made(t.line, e.method(t.line, of(e), name, args(e))) }
			} else {
				x = func(e *env) any { return e.item(t.line, of(e), name) }
			}
		case p.accept("["):
			x = p.index(t.line, of)
		case p.accept("|"):
			name := p.name()
			args := p.arguments()
			x = func(e *env) any { return e.made(t.line, e.filter(t.line, name, of(e), args(e))) }
		case p.accept("is"):
			not, name := p.accept("not"), p.name()
			x = func(e *env) any { return e.made(t.line, test(t.line, name, of(e)) != not) }
		default:
			return x
		}
	}
}

// args are those of a call. The last of values have the names.
type args struct {
	names  []string
	values []any
}

// arguments parses (…), if it is there.
func (p *parser) arguments() func(*env) args {
	if p.accept("(") {
		return p.rest(")")
	}
	return func(*env) args { return args{} }
}

// rest parses values up to a closing bracket.
func (p *parser) rest(closer string) func(*env) args {
	var list []expr
	var names []string
	for !p.accept(closer) {
		if t := p.peek(); t.kind == 'n' && p.tokens[p.at+1].text == "=" {
			names = append(names, t.text)
			p.at += 2
		}
		list = append(list, p.expr())
		if !p.accept(",") && !p.is(closer) {
			p.want(closer)
		}
	}
	return func(e *env) args {
		a := args{names: names, values: make([]any, len(list))}
		for i, x := range list {
			a.values[i] = x(e)
		}
		return a
	}
}

// index parses an index, or a slice from:to, behind its bracket.
func (p *parser) index(line int, of expr) expr {
	none := expr(func(*env) any { return nil })
	from, to := none, none
	if !p.is(":") {
		from = p.expr()
	}
	slice := p.accept(":")
	if slice && !p.is("]") {
		to = p.expr()
	}
	p.want("]")
	return func(e *env) any {
		if slice {
			return e.made(line, e.slice(line, of(e), from(e), to(e)))
		}
		return e.item(line, of(e), from(e))
	}
}

// constants are names with a value of their own.
var constants = map[string]any{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

func (p *parser) primary() expr {
	t := p.take()
	constant := func(v any) expr { return func(*env) any { return v } }
	switch {
	case t.kind == 's':
		return constant(t.text)
	case t.kind == 'i':
		return constant(t.value)
	case t.kind == 'n' && p.is("("):
		args := p.arguments()
		return func(e *env) any { return e.made(t.line, e.call(t.line, t.text, args(e))) }
	case t.kind == 'n':
		if v, ok := constants[t.text]; ok {
			return constant(v)
		}
		return func(e *env) any { return e.get(t.text) }
	case t.text == "(":
		x := p.expr()
		p.want(")")
		return x
	case t.text == "[":
		list := p.rest("]")
		return func(e *env) any { return e.made(t.line, list(e).values) }
	}
	fail(t.line, "expected a value before %q", t.text)
	return nil
}
