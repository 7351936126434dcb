package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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

// hasVocab reports whether a folder has a vocab.json.
func hasVocab(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, vocabFile))
	return err == nil
}

// loadVocab reads vocab.json and merges.txt in a folder. The words are those of
// GPT-2, and <|endoftext|> is the token that separates documents.
func loadVocab(dir string) (*BPE, error) {
	p := parts{kind: "bpe", split: []splitter{gpt2Split{}}}
	vocab, err := readFile(filepath.Join(dir, vocabFile))
	if err != nil {
		return nil, err
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(vocab, &names); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, vocabFile), notJSON(vocab, "", err))
	}
	added, err := readAdded(dir, names)
	if err != nil {
		return nil, err
	}
	if raw, ok := names[EndOfText]; ok {
		var id uint32
		if err := json.Unmarshal(raw, &id); err == nil { // readVocab refuses others
			added = append(added, addedJSON{ID: id, Content: EndOfText, Special: true})
		}
	}
	ids, err := p.readVocab(vocab, added)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, vocabFile), err)
	}
	path := filepath.Join(dir, mergesFile)
	merges, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if err := p.readMergeLines(string(merges), ids); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t, err := p.build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// readAdded reads the tokens beyond the vocabulary, by name.
func readAdded(dir string, vocab map[string]json.RawMessage) (list []addedJSON, err error) {
	path := filepath.Join(dir, addedFile)
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids map[string]uint32
	if err := json.Unmarshal(b, &ids); err != nil {
		return nil, fmt.Errorf("%s: %w", path, notJSON(b, "", err))
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
