package datasets

import (
	"strings"
	"testing"
)

// TestConversations finds the key of a conversation in the first line.
func TestConversations(t *testing.T) {
	const line = `{"id": [1], "b": [{"role": "user", "content": "x"}], "a": [{"role": "user"}]}` + "\n"
	for _, c := range []struct {
		text, field string
		lines       int
	}{{line, "a", 1}, {"\n" + strings.Repeat(line, 9), "a", 5}, {`{"text": "x"}` + "\n" + line, "", 1}, {"no JSON", "", 1}, {"", "", 0}, {`{"m": [{"from": "human"}]}`, "", 1}} {
		field, lines, err := Conversations(t.Context(), write(t, "x.jsonl", c.text), 5)
		if err != nil || field != c.field || lines != c.lines {
			t.Errorf("%q: %q, %d, %v", c.text, field, lines, err)
		}
	}
}
