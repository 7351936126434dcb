package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Format is what the files of a model say about its texts: how a conversation becomes one,
// and what ends an answer.
type Format struct {
	Template string            `json:",omitempty"` // the source of the chat template; "": there is none
	Special  map[string]string `json:",omitempty"` // texts of special tokens by name, such as eos_token
	Ends     []uint32          `json:",omitempty"` // ids of tokens that end a text: eos_token_id
	Begin    []uint32          `json:",omitempty"` // ids of tokens that begin a prompt, of a model whose texts begin so; a template writes its own

	Name  string   `json:"-"` // names the template in errors; "": "the model's chat template"
	Notes []string `json:"-"` // what of the files was left out, once they are read

	parsed *Template // of the template source; nil: Parse parses
	source string
	left   string // see Without
}

// Without is the format without its template, which the config has left out.
func (f *Format) Without() *Format {
	own := *f
	own.Template, own.left = "", f.Template
	return &own
}

// HasLeft reports whether a template is the one that was left out: a run folder has it still.
func (f *Format) HasLeft(template string) bool {
	return f != nil && template != "" && f.left == template
}

// Parsed is the format with its template parsed, for many calls of Parse; f itself where it cannot be.
func (f *Format) Parsed() *Format {
	t, err := f.Parse()
	if err != nil {
		return f
	}
	own := *f
	own.parsed, own.source = t, f.Template
	return &own
}

// Within is the format without ids of [Format.Ends] and [Format.Begin] that a vocabulary of so many tokens lacks, and a note if
// Ends has some.
func (f *Format) Within(vocab int) *Format {
	beyond := func(id uint32) bool { return uint64(id) >= uint64(vocab) }
	if f != nil && slices.ContainsFunc(f.Begin, beyond) { // the model cannot read it
		own := *f
		own.Begin = nil
		f = &own
	}
	if f == nil || !slices.ContainsFunc(f.Ends, beyond) {
		return f
	}
	own := *f
	own.Ends = slices.DeleteFunc(slices.Clone(f.Ends), beyond)
	own.Notes = append(slices.Clip(f.Notes), fmt.Sprintf("eos_token_id %v: the model has %d tokens, and ids beyond them are left out", f.Ends, vocab))
	return &own
}

// Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"` // such as user
	Content string `json:"content"`
}

// ErrNoTemplate is the error of a [Format] without a template.
var ErrNoTemplate = errors.New("there is no chat template")

// Parse reads the template. Goroutines may render it at once.
func (f *Format) Parse() (*Template, error) {
	if f == nil || f.Template == "" {
		return nil, ErrNoTemplate
	}
	if f.parsed != nil && f.source == f.Template {
		return f.parsed, nil
	}
	name := f.Name
	if name == "" {
		name = "the model's chat template"
	}
	return Parse(name, f.Template)
}

// Vars are the variables that a template gets, for [Template.Render]. prompts asks for the
// beginning of an answer behind the messages.
func (f *Format) Vars(messages []any, prompts bool) map[string]any {
	vars := map[string]any{"messages": messages, "add_generation_prompt": prompts}
	for name, token := range f.Special {
		vars[name] = token
	}
	return vars
}

// Settings are the keys that the format has in tokenizer_config.json of Hugging Face's layout.
func (f *Format) Settings() map[string]any {
	keys := map[string]any{}
	if f == nil {
		return keys
	}
	for name, text := range f.Special {
		keys[name] = text
	}
	if f.Template != "" {
		keys["chat_template"] = f.Template
	}
	if len(f.Begin) > 0 {
		keys["add_bos_token"] = true
	}
	return keys
}

// File is the tokenizer_config.json that a run folder has: the [Format.Settings], and eos_token_id, which
// others have in config.json. It is nil where there is nothing to say.
func (f *Format) File() ([]byte, error) {
	keys := f.Settings()
	if f != nil && len(f.Ends) > 0 {
		keys["eos_token_id"] = f.Ends
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return encoded(keys)
}

// Written reports whether a tokenizer_config.json is just as [Format.File] writes it: it has no other keys, in
// no other form.
func Written(text []byte) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(text, &keys) != nil {
		return false
	}
	values := map[string]any{}
	for name, raw := range keys {
		var s string
		var ids []uint32
		switch {
		case name == "eos_token_id" && json.Unmarshal(raw, &ids) == nil:
			values[name] = ids
		case name == "add_bos_token" && string(raw) == "true":
			values[name] = true
		case (name == "chat_template" || strings.HasSuffix(name, "_token")) && json.Unmarshal(raw, &s) == nil:
			values[name] = s
		default:
			return false
		}
	}
	again, err := encoded(values)
	return err == nil && bytes.Equal(text, again)
}

// encoded is the text of a tokenizer_config.json.
func encoded(keys map[string]any) ([]byte, error) {
	var text bytes.Buffer
	w := json.NewEncoder(&text)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	err := w.Encode(keys)
	return text.Bytes(), err
}
