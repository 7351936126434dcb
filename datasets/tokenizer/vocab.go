package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a tokenizer as GPT-2 was first published, before there was
// tokenizer.json.
const (
	vocabFile  = "vocab.json"        // ids by the tokens' names
	mergesFile = "merges.txt"        // "left right", a merge in each line
	addedFile  = "added_tokens.json" // ids of tokens beyond the vocabulary; may be missing
)

// loadVocab reads a folder's vocab.json, merges.txt and added_tokens.json.
func loadVocab(dir string) (*BPE, error) {
	var texts [3][]byte
	for i, name := range []string{vocabFile, mergesFile, addedFile} {
		b, err := readFile(filepath.Join(dir, name))
		if err != nil && !(name == addedFile && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		texts[i] = b
	}
	t, err := parseVocab(texts[0], texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", dir, err)
	}
	return t, nil
}

// parseVocab makes a tokenizer of the files' contents; added is nil without that file.
// The words are those of GPT-2, and <|endoftext|> is the token that separates
// documents.
func parseVocab(vocab, merges, added []byte) (*BPE, error) {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(vocab, &names); err != nil {
		return nil, fmt.Errorf("%s: %w", vocabFile, notJSON(vocab, "", err))
	}
	extra, err := readAdded(added, names)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addedFile, err)
	}
	var end uint32
	if raw, ok := names[EndOfText]; ok && json.Unmarshal(raw, &end) == nil { // readVocab refuses others
		extra = append(extra, addedJSON{ID: end, Content: EndOfText, Special: true})
	}
	p := parts{kind: "bpe", split: []splitter{gpt2Split{}}}
	ids, err := p.readVocab(vocab, extra)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vocabFile, err)
	}
	if err := p.readMergeLines(string(merges), ids); err != nil {
		return nil, fmt.Errorf("%s: %w", mergesFile, err)
	}
	return p.build()
}

// readAdded reads the tokens beyond the vocabulary, by name.
func readAdded(added []byte, vocab map[string]json.RawMessage) (list []addedJSON, err error) {
	if added == nil {
		return nil, nil
	}
	var ids map[string]uint32
	if err := json.Unmarshal(added, &ids); err != nil {
		return nil, notJSON(added, "", err)
	}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		if _, known := vocab[name]; !known {
			list = append(list, addedJSON{ID: ids[name], Content: name, Special: true})
		}
	}
	return list, nil
}

// readMergeLines reads merges.txt.
func (p *parts) readMergeLines(text string, ids map[string]uint32) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || number == 1 && strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := strings.Cut(line, " ")
		if !ok || !p.addMerge(left, right, ids) {
			return unsupported(fmt.Sprintf("line %d", number), fmt.Sprintf("%.80q is not two tokens of %s", line, vocabFile), `expected "left right"`)
		}
	}
	return nil
}
