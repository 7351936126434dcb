package datasets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKeysOfLines finds the keys of conversations in the first line, behind a byte order mark, too.
func TestKeysOfLines(t *testing.T) {
	const line = `{"id": [1], "b": [{"role": "user", "content": "x"}], "a": [{"role": "user"}]}` + "\n"
	const several = `{"rejected": [{"role": "user", "content": "x"}], "chosen": [{"role": "user", "content": "x"}]}`
	for _, c := range []struct {
		text, chat     string
		chats, foreign []string
		lines          int
	}{
		{line, "b", []string{"b"}, nil, 1},
		{"\ufeff" + line, "b", []string{"b"}, nil, 1},
		{"\n" + strings.Repeat(line, 9), "b", []string{"b"}, nil, 5},
		{several, "", []string{"chosen", "rejected"}, nil, 1},
		{strings.Replace(several, "rejected", "messages", 1), "messages", []string{"chosen", "messages"}, nil, 1},
		{`{"text": "x"}` + "\n" + line, "", nil, nil, 1},
		{"no JSON", "", nil, nil, 1},
		{"", "", nil, nil, 0},
		{`{"m": [{"from": "human", "value": "x"}]}`, "", nil, []string{"m"}, 1},
	} {
		k, err := KeysOfLines(t.Context(), write(t, "x.jsonl", c.text), 5)
		if err != nil || k.Chat() != c.chat || !slices.Equal(k.Chats, c.chats) || !slices.Equal(k.Foreign, c.foreign) || k.Lines != c.lines {
			t.Errorf("%q: %+v, %v", c.text, k, err)
		}
	}
	folder := t.TempDir()
	for _, name := range []string{"a.jsonl", "b.jsonl", "c.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if k, err := KeysOfLines(t.Context(), folder, 5); err != nil || k.Chat() != "b" || k.Lines != 2 {
		t.Errorf("a folder: %+v, %v", k, err)
	}
}
