package datasets

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// TestReadChat reads what the files of a folder say about texts, in all forms that published models have.
func TestReadChat(t *testing.T) {
	type files = map[string]string
	for _, c := range []struct {
		name     string
		files    files
		template string
		eos      string
		ends     []uint32
		fails    string
		notes    string
	}{
		{name: "none"},
		{name: "config alone, without ends", files: files{"config.json": `{"model_type": "llama", "eos_token_id": null}`}},
		{"a string, a token, an id", files{"tokenizer_config.json": `{"chat_template": "a", "eos_token": "<e>"}`, "config.json": `{"eos_token_id": 5}`}, "a", "<e>", []uint32{5}, "", ""},
		{"a file before a string", files{"tokenizer_config.json": `{"chat_template": "a"}`, "chat_template.jinja": "b"}, "b", "", nil, "", ""},
		{"a list of templates", files{"tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]}`}, "y", "", nil, "", ""},
		{"generation_config.json first", files{"generation_config.json": `{"eos_token_id": [7, 8]}`, "config.json": `{"eos_token_id": 5}`}, "", "", []uint32{7, 8}, "", ""},
		{"an object", files{"tokenizer_config.json": `{"eos_token": {"content": "<e>", "lstrip": false}, "pad_token": null, "add_bos_token": true}`}, "", "<e>", nil, "", ""},
		{name: "no id", files: files{"config.json": `{"eos_token_id": "x"}`}, notes: "config.json: eos_token_id has what is no token id"},
		{name: "ids that stand for none", files: files{"config.json": `{"eos_token_id": [null, -1, 4294967295]}`}, ends: []uint32{4294967295}},
		{name: "ids beyond all", files: files{"config.json": `{"eos_token_id": [4294967296, 5]}`}, ends: []uint32{5}, notes: "config.json: eos_token_id has"},
		{name: "no JSON of ends", files: files{"config.json": `{`, "tokenizer_config.json": `{"chat_template": "a"}`}, template: "a", notes: "config.json: unexpected end of JSON input: its eos_token_id is left out"},
		{name: "no JSON", files: files{"tokenizer_config.json": `{`}, fails: "unexpected end of JSON input: correct the file, or take it out of the folder"},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := ReadChat(dir)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Fatal(c.name, err)
		}
		if f == nil {
			f = &chat.Format{}
		}
		if f.Template != c.template || f.Special["eos_token"] != c.eos || !slices.Equal(f.Ends, c.ends) {
			t.Errorf("%s: %+v", c.name, f)
		}
		if notes := strings.Join(f.Notes, "\n"); !strings.Contains(notes, c.notes) || (c.notes == "") != (notes == "") {
			t.Errorf("%s: notes %q, want %q", c.name, notes, c.notes)
		}
		text, err := f.File()
		if err != nil {
			t.Fatal(c.name, err)
		}
		again := t.TempDir() // as a run folder has it
		if err := os.WriteFile(filepath.Join(again, chatConfigFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if text == nil {
			continue
		}
		if !chat.Written(text) || chat.Written(text[1:]) || chat.Written([]byte(`{"tokenizer_class": "x"}`)) || chat.Written([]byte(`{"eos_token":"$"}`)) {
			t.Errorf("%s: what a run wrote is not told from what others wrote", c.name)
		}
		if g, err := ReadChat(again); err != nil || g.Template != c.template || g.Special["eos_token"] != c.eos || !slices.Equal(g.Ends, c.ends) {
			t.Errorf("%s, from a run folder: %+v, %v", c.name, g, err)
		}
	}
}

// TestPrompt makes a prompt of messages, and finds what ends an answer: tokens, and texts that are no token.
func TestPrompt(t *testing.T) {
	info := Info{Tokenizer: tokenizer.Bytes{}, Chat: &chat.Format{
		Template: "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }} {{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
		Special:  map[string]string{"bos_token": "@", "eos_token": "</s>"}, Ends: []uint32{35},
	}}
	ids, stops := info.Ends(t.Context())
	if !slices.Equal(ids, []uint32{35}) || !slices.Equal(stops, []string{"</s>"}) {
		t.Error(ids, stops)
	}
	messages := []chat.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}
	prompt, ids, stops, err := info.Prompt(t.Context(), messages)
	if err != nil || prompt != "@<system>s </s>\n<user>u </s>\n<assistant>" || ids != nil || !slices.Equal(stops, []string{"</s>"}) {
		t.Errorf("%q %v %v %v", prompt, ids, stops, err)
	}
	info.Chat.Special["eos_token"] = "$"
	if _, ids, stops, err := info.Prompt(t.Context(), messages); err != nil || !slices.Equal(ids, []uint32{'$'}) || stops != nil {
		t.Error(ids, stops, err)
	}
	// White space with a line break ends an answer, too. A space does not: answers have it.
	for behind, want := range map[string][]string{"\n": {"\n"}, "\n\n": {"\n\n"}, " ": nil} {
		info.Chat.Template = "{% for m in messages %}" + "{{ m.content }}{{ '" + strings.ReplaceAll(behind, "\n", "\\n") + "' }}{% endfor %}"
		if _, ids, stops, err := info.Prompt(t.Context(), messages); err != nil || ids != nil || !slices.Equal(stops, want) {
			t.Errorf("%q: %v %q %v", behind, ids, stops, err)
		}
	}
	// A template that ends answers by nothing, or refuses to tell, says nothing.
	for _, template := range []string{"{{ messages[0].content }}", "{% if messages[-1].role == 'assistant' %}{{ raise_exception('no') }}{% endif %}x"} {
		info.Chat.Template = template
		if _, ids, stops, err := info.Prompt(t.Context(), messages); err != nil || ids != nil || stops != nil {
			t.Error(template, ids, stops, err)
		}
	}
	info.Chat.Template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
	if _, _, _, err := info.Prompt(t.Context(), messages); err == nil || !strings.Contains(err.Error(), "the model's chat template:1: the template refuses the conversation: no system") {
		t.Error(err)
	}
	info.Chat = nil
	if _, _, _, err := info.Prompt(t.Context(), messages); err == nil || !strings.Contains(err.Error(), "data.chat_template") {
		t.Error(err)
	}
}

// TestKnownChat: a model keeps its template, unless the options name another one, which leaves what ends its texts.
func TestKnownChat(t *testing.T) {
	known := &chat.Format{Template: "known", Special: map[string]string{"eos_token": "e"}, Ends: []uint32{3}}
	bare := *known
	bare.Template = ""
	path := write(t, "x.jinja", "given")
	for _, c := range []struct {
		known *chat.Format
		given string
		want  string
		ends  int
	}{{known, "", "known", 1}, {known, path, "known", 1}, {&bare, path, "given", 1}, {&bare, "", "", 1}, {nil, path, "given", 0}} {
		f, err := Spec{Text: TextOptions{Tokenizer: "bytes", ChatTemplate: c.given, KnownChat: c.known}}.Chat()
		if err != nil || f.Template != c.want || len(f.Ends) != c.ends {
			t.Errorf("%+v: %+v, %v", c, f, err)
		}
	}
	// A template that the config names no more leaves that of the tokenizer's folder.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, chatConfigFile), []byte(`{"chat_template": "own", "eos_token": "$"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Spec{Text: TextOptions{Tokenizer: dir, KnownChat: &bare}}.Chat()
	if err != nil || f.Template != "own" || f.Special["eos_token"] != "$" || !slices.Equal(f.Ends, known.Ends) {
		t.Errorf("%+v, %v", f, err)
	}
	if f := f.Within(3); len(f.Ends) > 0 || len(f.Notes) != 1 {
		t.Errorf("%+v", f)
	}
	if known.Template != "known" || bare.Template != "" || len(known.Ends) != 1 {
		t.Error("the known format changed")
	}
	if f, err := (Spec{Text: TextOptions{Tokenizer: "gpt2"}}).Chat(); f != nil || err != nil {
		t.Error(f, err)
	}
	if _, err := (Spec{Text: TextOptions{ChatTemplate: filepath.Join(t.TempDir(), "none")}}).Chat(); err == nil || Blame(err) != "chat_template" {
		t.Error(err)
	}
}

// TestTemplateThatWasLeftOut: a template that the config has left out does not come back from the folder of the run.
func TestTemplateThatWasLeftOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"bos_token": "@", "chat_template": "own"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for template, want := range map[string]string{"own": "", "another": "own"} {
		s := Spec{}
		s.Text.Tokenizer, s.Text.KnownChat = dir, (&chat.Format{Template: template, Ends: []uint32{3}}).Without()
		if f, err := s.Chat(); err != nil || f.Template != want || !slices.Equal(f.Ends, []uint32{3}) {
			t.Errorf("without %q: %+v, %v; want %q", template, f, err, want)
		}
	}
}

// TestEndsOfTemplates finds what the templates of published models put behind an answer.
func TestEndsOfTemplates(t *testing.T) {
	b, err := os.ReadFile("chat/testdata/references.json")
	if err != nil {
		t.Fatal(err)
	}
	var refs struct {
		Templates []struct{ Name, Template string }
	}
	if err := json.Unmarshal(b, &refs); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"chatml": "<|im_end|>", "qwen2": "<|im_end|>", "qwen2.5": "<|im_end|>", "llama3": "<|eot_id|>", "llama3.1": "<|eot_id|>",
		"mistral": "</s>", "llama2": "</s>", "zephyr": "</s>", "gemma": "<end_of_turn>",
	}
	for _, r := range refs.Templates {
		if want[r.Name] == "" { // it is of no model
			continue
		}
		info := Info{Tokenizer: tokenizer.Bytes{}, Chat: &chat.Format{Template: r.Template, Special: map[string]string{"bos_token": "<s>", "eos_token": "</s>"}}}
		_, _, stops, err := info.Prompt(t.Context(), []chat.Message{{Role: "user", Content: "Hello"}})
		if err != nil || !slices.Equal(stops, []string{want[r.Name]}) {
			t.Errorf("%s: %q, %v", r.Name, stops, err)
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("no templates of %v", want)
	}
}
