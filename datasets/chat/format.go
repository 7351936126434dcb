package chat

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Format is what the files of a model say about its texts: how a conversation becomes one,
// and what ends an answer.
type Format struct {
	Template string            `json:",omitempty"` // the source of the chat template; "": there is none
	Special  map[string]string `json:",omitempty"` // texts of special tokens by name, such as eos_token
	Ends     []uint32          `json:",omitempty"` // ids of tokens that end a text: eos_token_id

	Name string `json:"-"` // names the template in errors; "": "the model's chat template"
}

// Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"` // such as user
	Content string `json:"content"`
}

// ErrNoTemplate is the error of a [Format] without a template.
var ErrNoTemplate = errors.New("there is no chat template")

// Parse reads the template.
func (f *Format) Parse() (*Template, error) {
	if f == nil || f.Template == "" {
		return nil, ErrNoTemplate
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
	var text bytes.Buffer
	w := json.NewEncoder(&text)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	err := w.Encode(keys)
	return text.Bytes(), err
}
