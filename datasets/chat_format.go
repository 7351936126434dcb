package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/engine/osfile"
)

// Files beside a tokenizer.json that say how conversations become text, and the most bytes of one.
const (
	chatFile       = "chat_template.jinja"
	chatConfigFile = "tokenizer_config.json"
	mostChatFile   = 4 << 20
)

// endFiles are files that may have eos_token_id. The first one that has it counts.
var endFiles = []string{"generation_config.json", "config.json", chatConfigFile}

// ReadChat reads what a folder of Hugging Face's layout, or a run folder, says about texts:
// chat_template.jinja or else chat_template of tokenizer_config.json, which also has bos_token and
// the like, and eos_token_id of generation_config.json or config.json. It is nil where they say nothing.
// An eos_token_id that is no token id is left out, as is a damaged file of it: [chat.Format.Notes] says so.
func ReadChat(dir string) (*chat.Format, error) {
	f, files := &chat.Format{Special: map[string]string{}}, map[string]map[string]json.RawMessage{}
	for _, name := range endFiles {
		path, keys := filepath.Join(dir, name), map[string]json.RawMessage{}
		b, err := osfile.Read(path, mostChatFile)
		if err == nil {
			err = json.Unmarshal(b, &keys)
		}
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
		case name == chatConfigFile:
			return nil, blame("tokenizer", fmt.Errorf("%w: %s: %v: correct the file, or take it out of the folder", ErrFormat, path, err))
		default:
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %v: its eos_token_id is left out", path, err))
		}
		files[name] = keys
		if ends, ok := keys["eos_token_id"]; ok && f.Ends == nil {
			if f.Ends, ok = tokenIDs(ends); !ok {
				f.Notes = append(f.Notes, fmt.Sprintf("%s: eos_token_id has what is no token id, which is left out: give an id, or a list of them", path))
			}
		}
	}
	config := files[chatConfigFile]
	for name, value := range config {
		if text, ok := tokenText(value); ok && strings.HasSuffix(name, "_token") {
			f.Special[name] = text
		}
	}
	f.Name = filepath.Join(dir, chatFile)
	b, err := osfile.Read(f.Name, mostChatFile)
	f.Template = string(b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Template, f.Name = configTemplate(config["chat_template"]), filepath.Join(dir, chatConfigFile)+":chat_template"
	case err != nil:
		return nil, blame("tokenizer", err)
	}
	if f.Template == "" && len(f.Special) == 0 && f.Ends == nil && f.Notes == nil {
		return nil, nil
	}
	return f, nil
}

// tokenIDs are the ids of an id, or a list of them. Null and negative numbers, which stand for none, are left
// out. ok is false if others are, too.
func tokenIDs(b json.RawMessage) (ids []uint32, ok bool) {
	list := []json.RawMessage{b}
	if bytes.HasPrefix(b, []byte("[")) {
		list = nil
		_ = json.Unmarshal(b, &list) // b is a value of a file that was read
	}
	ok = true
	for _, x := range list {
		n, err := strconv.ParseInt(string(x), 10, 64)
		switch {
		case string(x) == "null" || err == nil && n < 0:
		case err != nil || n > math.MaxUint32:
			ok = false
		default:
			ids = append(ids, uint32(n))
		}
	}
	return ids, ok
}

// tokenText is a token of tokenizer_config.json: a string, or an object with its content.
func tokenText(b json.RawMessage) (text string, ok bool) {
	var object struct{ Content string }
	if json.Unmarshal(b, &text) == nil {
		return text, string(b) != "null"
	}
	err := json.Unmarshal(b, &object)
	return object.Content, err == nil && object.Content != ""
}

// configTemplate is the template of tokenizer_config.json: a string, or that of the name
// default in a list; "" if there is none.
func configTemplate(b json.RawMessage) (text string) {
	var list []struct{ Name, Template string }
	if json.Unmarshal(b, &text) == nil {
		return text
	}
	if json.Unmarshal(b, &list) == nil {
		for _, x := range list {
			if x.Name == "default" {
				return x.Template
			}
		}
	}
	return ""
}

// Chat is how conversations become text: as the model does it that the spec is like, or the run that goes
// on, and where that says nothing, as the files that the options name say. It is nil where these say nothing.
func (s Spec) Chat() (f *chat.Format, err error) {
	given := s.Text.ChatTemplate
	if f = s.knownChat(); f != nil && (f.Template != "" || given == "" && s.Like != nil) {
		return f, nil
	}
	if dir := s.tokenizerFolder(); f == nil && dir != "" {
		if f, err = ReadChat(dir); err != nil {
			return nil, err
		}
	} else if given == "" && dir != "" { // the run had another template, which the config has no more
		other, err := ReadChat(dir)
		if err != nil || other == nil || other.Template == "" || f.HasLeft(other.Template) {
			return f, err
		}
		return withTemplate(f, other), nil
	}
	if given == "" {
		return f, nil
	}
	own := chat.Format{}
	if f != nil {
		own = *f
	}
	if st, err := os.Stat(given); err == nil && st.IsDir() {
		other, err := ReadChat(given)
		if err != nil {
			return nil, err
		}
		if other == nil {
			other = &chat.Format{}
		}
		return withTemplate(&own, other), nil
	}
	b, err := osfile.Read(given, mostChatFile)
	if err != nil {
		return nil, blame("chat_template", fmt.Errorf("data.chat_template: %w", err))
	}
	own.Template, own.Name = string(b), given
	return &own, nil
}

// withTemplate is a format with the template of another, and the special tokens that this one has.
func withTemplate(f, other *chat.Format) *chat.Format {
	own := *f
	own.Template, own.Name, own.Special = other.Template, other.Name, other.Special
	own.Notes = append(slices.Clip(own.Notes), other.Notes...)
	return &own
}

// knownChat is the format of the model; nil before there is one.
func (s Spec) knownChat() *chat.Format {
	if s.Like != nil {
		return s.Like.Chat
	}
	return s.Text.KnownChat
}

// tokenizerFolder is the folder of the tokenizer.json that the options name; "" if they name none.
func (s Spec) tokenizerFolder() string {
	dir := s.Text.Tokenizer
	if slices.Contains([]string{"", "char", "bytes", "gpt2"}, dir) || strings.HasPrefix(dir, learnPrefix) {
		return ""
	}
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return filepath.Dir(dir)
	}
	return dir
}

// keepChat notes the format of the texts, which a text that is no conversation does not need.
func (ds *Dataset) keepChat(s Spec) {
	if ds.Info.Tokenizer == nil || ds.Info.Chat != nil {
		return
	}
	f, err := s.Chat()
	switch {
	case err == nil && f == nil:
	case err == nil:
		ds.Info.Chat = f
		ds.Notes = append(ds.Notes, f.Notes...)
	case errors.Is(err, ErrFormat):
		ds.Info.Chat = s.knownChat()
		ds.Notes = append(ds.Notes, fmt.Sprintf("the model gets no chat template: %v", err))
	}
}

// Ends are the tokens that end a text of the model: the one that separates documents, and those that the
// model's files name. stops are texts that do so, where the tokenizer has no token for one.
func (i *Info) Ends(ctx context.Context) (ids []uint32, stops []string) {
	if id, ok := i.Tokenizer.EndOfText(); ok {
		ids = append(ids, id)
	}
	if i.Chat == nil {
		return ids, nil
	}
	ids = append(ids, i.Chat.Ends...)
	if text := i.Chat.Special["eos_token"]; text != "" {
		i.endWith(ctx, text, &ids, &stops)
	}
	return ids, stops
}

// endWith adds a text that ends an answer.
func (i *Info) endWith(ctx context.Context, text string, ids *[]uint32, stops *[]string) {
	if list, err := i.Tokenizer.EncodeRest(ctx, nil, []byte(text)); err == nil && len(list) == 1 {
		*ids = append(*ids, list[0])
		return
	}
	*stops = append(*stops, text)
}

// Prompt is the text that a model of the text continues with its answer to messages, by its chat template.
// ids and stops are what ends the answer, beside [Info.Ends]: the text that the template puts behind one.
func (i *Info) Prompt(ctx context.Context, messages []chat.Message) (prompt string, ids []uint32, stops []string, err error) {
	t, err := i.Chat.Parse()
	if errors.Is(err, chat.ErrNoTemplate) {
		return "", nil, nil, fmt.Errorf("%w: the model has no chat template, which makes a prompt of messages: set data.chat_template to the path of one", ErrSpec)
	}
	if err != nil {
		return "", nil, nil, err
	}
	var list []any
	for n, m := range messages {
		if m.Role == "" {
			return "", nil, nil, fmt.Errorf("%w: message %d has no role: give it one, such as user or %s", ErrSpec, n+1, assistant)
		}
		list = append(list, chat.Dict{"role": m.Role, "content": m.Content})
	}
	text, err := t.Render(ctx, i.Chat.Vars(list, true))
	if err != nil {
		return "", nil, nil, err
	}
	const probe = "Yes"
	answered := append(list, chat.Dict{"role": assistant, "content": probe})
	if with, err := t.Render(ctx, i.Chat.Vars(answered, false)); err == nil { // else what ends an answer is not known
		rest, ok := strings.CutPrefix(with.Text, text.Text)
		at := strings.LastIndex(rest, probe) // some templates put a space before an answer
		if !ok || at < 0 {
			return text.Text, nil, nil, nil
		}
		behind := rest[at+len(probe):]
		switch end := strings.TrimSpace(behind); {
		case end != "":
			i.endWith(ctx, end, &ids, &stops)
		case strings.Contains(behind, "\n"): // as a text: tokens may join it with more; a space alone is within answers, too
			stops = append(stops, behind)
		}
	}
	return text.Text, ids, stops, context.Cause(ctx)
}
