package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
)

// Conversations looks at the first line of a file of JSON lines: field is the key of its conversation, a list of
// objects with a role, the first by name; "" if it has none. lines counts those with text, up to most.
func Conversations(ctx context.Context, path string, most int) (field string, lines int, err error) {
	c, err := openCorpus(Spec{Source: "text", Text: TextOptions{Field: "messages"}}, path)
	if err != nil || len(c.files) == 0 {
		return "", 0, err
	}
	enough := errors.New("enough")
	err = c.pieces(ctx, c.files[0], wholeLines, func(p textPiece) error {
		for line := range bytes.Lines(p.text) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if lines++; lines == 1 {
				field = conversationField(line)
			}
			if field == "" || lines == most {
				return enough
			}
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return field, lines, err
}

// conversationField is the key of a JSON object whose value is a conversation; "" if there is none.
func conversationField(line []byte) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(line, &object) != nil {
		return ""
	}
	var found []string
	for key, value := range object {
		var list []struct{ Role string }
		if json.Unmarshal(value, &list) == nil && len(list) > 0 && list[0].Role != "" {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}
