package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/chat"
)

// TestReferences compares with what Jinja2 renders: see testdata/make.py.
func TestReferences(t *testing.T) {
	b, err := os.ReadFile("testdata/references.json")
	if err != nil {
		t.Fatal(err)
	}
	var refs struct {
		Conversations []json.RawMessage
		Templates     []struct {
			Name, Template string
			Texts          []any
		}
	}
	if err := json.Unmarshal(b, &refs); err != nil {
		t.Fatal(err)
	}
	for _, r := range refs.Templates {
		template, err := chat.Parse(r.Name, r.Template)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		for i, want := range r.Texts {
			messages, err := chat.Value(refs.Conversations[i/2])
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.Render(t.Context(), map[string]any{"messages": messages, "add_generation_prompt": i%2 == 1, "bos_token": "<s>", "eos_token": "</s>"})
			if text, ok := want.(string); ok && (err != nil || got.Text != text) {
				t.Errorf("%s, conversation %d: %v\n got %q\nwant %q", r.Name, i/2, err, got.Text, text)
			} else if !ok {
				reason := want.(map[string]any)["error"].(string)
				if err == nil || !strings.Contains(err.Error(), reason) {
					t.Errorf("%s, conversation %d: got the error %v, want %q", r.Name, i/2, err, reason)
				}
			}
		}
	}
}

// TestRefusals checks that each part that is not supported is named, with its line, and that no template runs for ever.
func TestRefusals(t *testing.T) {
	for _, x := range []struct{ template, want string }{
		{"\n{{ 'a' | frobnicate }}", `t:2: the filter "frobnicate" is not supported`},
		{"{% include 'x' %}", `t:1: the block "include" is not supported`},
		{"{% import 'x' as y %}", `the block "import" is not supported`},
		{"{% macro f() %}{% endmacro %}", `the block "macro" is not supported`},
		{"a\n\n{% if true %}", "t:3: the block is not closed by endif"},
		{"{{ 'a' is odd }}", `the test "odd" is not supported`},
		{"{{ strftime_now('%Y') }}", "strftime_now is not supported"},
		{"{{ cycler() }}", `the function "cycler" is not supported`},
		{"{{ 'a'.format(1) }}", "an argument is a number"},
		{"{{ 'a'.title() }}", `the method "title" of a string is not supported`},
		{"{{ 'a'.__class__.__mro__ }}", `an undefined value has no "__mro__"`},
		{"{{ ['a'] | tojson(indent=4) }}", "tojson is supported with at most 0 arguments"},
		{"{{ [1] }}", "a list is no text"},
		{"{{ x.y }}", `an undefined value has no "y"`},
		{"{{ 'a }}", "is not supported, or the tag is not closed"},
		{"{{ 1 / 2 }}", `before "/"`}, {"{{ 1 < 2 < 3 }}", "in a row"},
		{"{# a", "the comment does not end"},
		{"{{ 1 // 0 }}", "a division by 0"},
		{"{% break %}", `the block "break" is not supported`},
		{"{{ raise_exception('no') }}", "the template refuses the conversation: no"},
		{"{{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + "}}", "in each other"},
		{strings.Repeat("{% if x %}", 1000), "in each other"},
		{"{% for a in range(9000000) %}{% endfor %}", "does not end"},
		{"{% set r = range(1000) %}{% for a in r %}{% for b in r %}{% for c in r %}{% for d in r %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}", "does not end"},
		{"{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "does not end"},
		{"{% set ns = namespace(s=[1], t=[1]) %}{% for a in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}", "does not end"},
		{"{% set ns = namespace(s=[1]) %}{% for a in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}", "does not end"},
		{"{% set x = 'x'.replace('y') %}", `the method "replace"`},
		{"{% set s = range(99999) | join(',') %}{% for a in range(99999) %}{{ s }}{% endfor %}", "does not end"},
	} {
		template, err := chat.Parse("t", x.template)
		if err == nil {
			_, err = template.Render(t.Context(), nil)
		}
		if !errors.Is(err, chat.ErrTemplate) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%.80s\n got %v\nwant %s", x.template, err, x.want)
		}
	}
}

// TestMarks checks what {% generation %} marks.
func TestMarks(t *testing.T) {
	template, err := chat.Parse("t", "{% for m in messages %}<{{ m }}>{% generation %}{{ m }}!{% endgeneration %}{% endfor %}")
	if err != nil || !template.Marks {
		t.Fatal(err, template)
	}
	got, err := template.Render(t.Context(), map[string]any{"messages": []any{"a", "bc"}})
	if err != nil || got.Text != "<a>a!<bc>bc!" || len(got.Marks) != 2 || got.Marks[1] != [2]int{9, 12} {
		t.Fatal(got, err)
	}
}

// A rendering ends soon after its context, with the cause.
func TestRenderEnds(t *testing.T) {
	template, err := chat.Parse("t", "{% for a in range(1000) %}{% for b in range(900) %}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := template.Render(ctx, nil); !errors.Is(err, cause) || errors.Is(err, chat.ErrTemplate) {
		t.Error(err)
	}
}

// FuzzParse checks that no template panics or runs for ever.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"{% for m in messages %}{{ m.role | trim }}{% endfor %}", "{%- set x = [1, 'a'][0:1] -%}\n{{ x is not none and 'a' ~ 2 }}", "{# c -#} {{ range(3) | join }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		template, err := chat.Parse("t", s)
		if err == nil {
			_, err = template.Render(t.Context(), map[string]any{"messages": []any{chat.Dict{"role": "user", "content": "x"}}})
		}
		if err != nil && !errors.Is(err, chat.ErrTemplate) {
			t.Error(err)
		}
	})
}

// A format that is parsed once gives its template again, until it has another.
func TestParsed(t *testing.T) {
	f := (&chat.Format{Template: "{{ a }}"}).Parsed()
	first, err := f.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.Parse(); err != nil || again != first {
		t.Errorf("the template is parsed again; %v", err)
	}
	other := *f
	other.Template = "{{ b }}"
	if x, err := other.Parse(); err != nil || x == first {
		t.Errorf("another template is the one that was parsed; %v", err)
	}
	for _, bad := range []*chat.Format{nil, {}, {Template: "{{"}} {
		if _, err := bad.Parsed().Parse(); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
