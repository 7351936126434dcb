package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// messagesField is the usual key of a conversation.
const messagesField = "messages"

// LineKeys are the keys of the first line of JSON lines, sorted, and what they may be conversations by.
type LineKeys struct {
	All     []string
	Chats   []string // lists whose first object has a role and content
	Foreign []string // lists whose first object has from and value, as ShareGPT's have, and not a role
	Lines   int      // those with text, up to a number
}

// Chat is the key of the conversation: messages, or else the only one that is a conversation; "" without one.
func (k *LineKeys) Chat() string {
	if slices.Contains(k.Chats, messagesField) {
		return messagesField
	}
	if len(k.Chats) == 1 {
		return k.Chats[0]
	}
	return ""
}

// KeysOfLines looks at the first line of a file of JSON lines, or of the first such file of a folder, and counts
// the lines of all files, up to most.
func KeysOfLines(ctx context.Context, path string, most int) (k LineKeys, err error) {
	c, err := openCorpus(Spec{Source: "text", Text: TextOptions{Field: messagesField}}, path)
	if err != nil {
		return k, err
	}
	enough := errors.New("enough")
	for _, f := range c.files {
		err = c.pieces(ctx, f, wholeLines, func(p textPiece) error {
			for line := range bytes.Lines(p.text) {
				if len(bytes.TrimSpace(line)) == 0 {
					continue
				}
				if k.Lines++; k.Lines == 1 {
					k.read(line)
				}
				if len(k.Chats) == 0 || k.Lines == most {
					return enough
				}
			}
			return nil
		})
		if errors.Is(err, enough) {
			return k, nil
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

// read reads the keys of a JSON object. Another line has none.
func (k *LineKeys) read(line []byte) {
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil {
		return
	}
	k.All = slices.Sorted(maps.Keys(object))
	for _, key := range k.All {
		var list []map[string]json.RawMessage
		if json.Unmarshal(object[key], &list) != nil || len(list) == 0 {
			continue
		}
		has := func(name string) bool { return len(list[0][name]) > 0 }
		switch {
		case has("role") && has("content"):
			k.Chats = append(k.Chats, key)
		case has("from") && has("value") && !has("role"):
			k.Foreign = append(k.Foreign, key)
		}
	}
}
