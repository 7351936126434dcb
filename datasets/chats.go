package datasets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// assistant is the role whose messages are answers.
const assistant = "assistant"

// chatFormat turns conversations into text.
type chatFormat struct {
	*chat.Format
	template *chat.Template
}

// chatFormat reads the template of the text's conversations.
func (s Spec) chatFormat() (*chatFormat, error) {
	f, err := s.Chat()
	if err != nil {
		return nil, err
	}
	t, err := f.Parse()
	if errors.Is(err, chat.ErrNoTemplate) && s.knownTokenizer() == nil && s.tokenizerFolder() != "" {
		if _, missing := namedTokenizer(s.Text.Tokenizer); missing != nil {
			return nil, missing
		}
	}
	switch {
	case errors.Is(err, chat.ErrNoTemplate):
		return nil, blame("tokenizer", fmt.Errorf("%w: %s is a list of messages, and %s has no chat template, in %s or %s: set data.chat_template to the path of one",
			ErrSpec, s.Text.Field, cmp.Or(s.Text.ChatTemplate, "data.tokenizer "+cmp.Or(s.Text.Tokenizer, "char")), chatFile, chatConfigFile))
	case err != nil:
		return nil, blame("chat_template", fmt.Errorf("data.chat_template: %w", err))
	}
	return &chatFormat{f, t}, nil
}

// holdsChats reports whether the field of the first line is a list: of messages. It notes a line that lacks the field.
func (c *corpus) holdsChats(ctx context.Context) (yes bool, err error) {
	if c.field == "" || len(c.files) == 0 {
		return false, nil
	}
	found := errors.New("found")
	err = c.pieces(ctx, c.files[0], wholeLines, func(p textPiece) error {
		for line := range bytes.Lines(p.text) {
			var object map[string]json.RawMessage
			if json.Unmarshal(line, &object) == nil {
				value, has := object[c.field]
				yes, c.lacks = bytes.HasPrefix(value, []byte("[")), !has
			}
			if len(bytes.TrimSpace(line)) > 0 {
				return found
			}
		}
		return nil
	})
	if errors.Is(err, found) {
		err = nil
	}
	return yes, err
}

// conversation is the messages of a JSON line.
func (c *corpus) conversation(line []byte) ([]any, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return nil, fmt.Errorf("expected a JSON object: %v", err)
	}
	raw, ok := object[c.field]
	if !ok {
		return nil, fmt.Errorf("the object has no key %q: set %s to one that all lines have", c.field, c.fieldName)
	}
	v, err := chat.Value(raw)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("%q is no list of messages, as it is in the first line: correct the line, or take it out", c.field)
	}
	for i, x := range list {
		m, _ := x.(chat.Dict)
		role, _ := m["role"].(string)
		content, ok := m["content"].(string)
		switch {
		case role == "" && m["from"] != nil && m["value"] != nil:
			return nil, fmt.Errorf("message %d of %q has from and value: role and content are expected, such as user or %s for from, and the text for value", i+1, c.field, assistant)
		case role == "":
			return nil, fmt.Errorf("message %d of %q has no role: give it one, such as user or %s", i+1, c.field, assistant)
		case !ok:
			return nil, fmt.Errorf("the content of message %d of %q is no string: give it text", i+1, c.field)
		case role == assistant && strings.TrimSpace(content) == "":
			return nil, fmt.Errorf("message %d of %q is an empty answer, which teaches nothing: take it out, or the line", i+1, c.field)
		}
	}
	return list, nil
}

// render is the text of messages. prompts asks for the beginning of an answer at its end.
func (f *chatFormat) render(ctx context.Context, messages []any, prompts bool) (chat.Text, error) {
	return f.template.Render(ctx, f.Vars(messages, prompts))
}

// answers renders a conversation, and finds the bytes from..to of each of its answers: those
// that the template marks, or else what a message of the assistant adds to the prompt
// for it.
func (f *chatFormat) answers(ctx context.Context, messages []any) (text string, spans [][2]int, err error) {
	all, err := f.render(ctx, messages, false)
	if err != nil || f.template.Marks {
		return all.Text, all.Marks, err
	}
	for i, m := range messages {
		if m.(chat.Dict)["role"] != assistant {
			continue
		}
		before, err := f.render(ctx, messages[:i], true)
		if err != nil {
			return "", nil, err
		}
		with := all
		if i < len(messages)-1 {
			if with, err = f.render(ctx, messages[:i+1], false); err != nil {
				return "", nil, err
			}
		}
		if !strings.HasPrefix(all.Text, with.Text) || !strings.HasPrefix(with.Text, before.Text) {
			return "", nil, fmt.Errorf("the chat template renders the messages up to %d otherwise than within the whole, so that the answer cannot be told apart: mark answers in the template with {%% generation %%} and {%% endgeneration %%}", i+1)
		}
		spans = append(spans, [2]int{len(before.Text), len(with.Text)})
	}
	return all.Text, spans, nil
}

// encodedChat is a conversation as tokens.
type encodedChat struct {
	ids     []uint32
	answers []bool // which tokens are of an answer
	number  int    // of its line
}

// encode tokenizes a conversation. Answers are tokenized apart from the text before them, as
// they are when a model writes them.
func (f *chatFormat) encode(ctx context.Context, t tokenizer.Tokenizer, messages []any) (x encodedChat, err error) {
	text, spans, err := f.answers(ctx, messages)
	if err != nil {
		return x, err
	}
	at := 0
	add := func(to int, answer bool) {
		if err != nil || to <= at {
			return
		}
		encode := t.EncodeRest
		if at == 0 {
			encode = t.Encode
		}
		x.ids, err = encode(ctx, x.ids, []byte(text[at:to]))
		x.answers = append(x.answers, slices.Repeat([]bool{answer}, len(x.ids)-len(x.answers))...)
		at = to
	}
	for _, span := range spans {
		add(span[0], false)
		add(span[1], true)
	}
	add(len(text), false)
	return x, err
}

// readChats tokenizes the conversations of a corpus, and collects them in order.
func (c *corpus) readChats(ctx context.Context, t tokenizer.Tokenizer, collect func(path string, x encodedChat) error) error {
	type piece struct {
		path  string
		chats []encodedChat
	}
	return each(ctx, c, "tokenizing", wholeLines, func(p textPiece) (piece, error) {
		out := piece{path: p.path}
		number := p.at.line - 1
		for line := range bytes.Lines(p.text) {
			number++
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			messages, err := c.conversation(line)
			x := encodedChat{}
			if err == nil {
				x, err = c.chats.encode(ctx, t, messages)
			}
			if err != nil {
				return out, fmt.Errorf("%w: %s:%d: %w", ErrFormat, p.path, number, err)
			}
			x.number = number
			out.chats = append(out.chats, x)
		}
		return out, nil
	}, func(p piece) error {
		for _, x := range p.chats {
			if err := collect(p.path, x); err != nil {
				return err
			}
		}
		return nil
	})
}
