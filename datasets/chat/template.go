// Package chat turns conversations into text by a chat template: the subset of Jinja that
// templates of published language models use, rendered as transformers does.
//
// [Parse] reads a template, and [Template.Render] applies it to messages. What the subset
// lacks is refused by its name and line: a block when the template is read, the rest when
// a rendering reaches it. A template reads no file, and ends: a rendering has a budget.
package chat

import (
	"context"
	"errors"
	"fmt"
)

// ErrTemplate is the cause of errors about a template or its rendering.
var ErrTemplate = errors.New("the chat template cannot be followed")

// The budget of a rendering.
const (
	mostWork  = 1_000_000 // evaluated expressions; a list or string that one makes counts by its size
	mostBytes = 8 << 20   // of the text, and of each string
	mostDepth = 100       // blocks and brackets in each other
)

// Template is a parsed chat template. It never changes and is safe for concurrent use.
type Template struct {
	// Marks: it has {% generation %} blocks, which say what the answers are.
	Marks bool

	name string
	body []node
}

// Text is a rendered conversation.
type Text struct {
	Text  string
	Marks [][2]int // bytes from..to of each {% generation %} block
}

// raised is an error at a line of a template.
type raised struct {
	line int
	text string
}

// fail ends parsing or rendering. Parse and Render recover from it.
func fail(line int, format string, args ...any) { panic(raised{line, fmt.Sprintf(format, args...)}) }

// ended is the end of a rendering whose context has ended.
type ended struct{ cause error }

// recovered turns what fail did into an error.
func (t *Template) recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case raised:
		*err = fmt.Errorf("%w: %s:%d: %s", ErrTemplate, t.name, r.line, r.text)
	case ended:
		*err = r.cause
	default:
		panic(r)
	}
}

// Parse reads a template. name stands before the line in errors.
func Parse(name, source string) (t *Template, err error) {
	t = &Template{name: name}
	defer t.recovered(&err)
	p := &parser{tokens: lex(source)}
	t.body, _ = p.nodes()
	t.Marks = p.marks
	return t, nil
}

// Render applies the template to variables: see [Value] for their types. Where ctx ends before, it
// fails with its cause.
func (t *Template) Render(ctx context.Context, vars map[string]any) (out Text, err error) {
	defer t.recovered(&err)
	e := &env{ctx: ctx, vars: []map[string]any{vars, {}}}
	e.run(t.body)
	return Text{e.out.String(), e.marks}, nil
}
