package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Load reads a tokenizer.json, or the one in a folder. A folder without it may have
// GPT-2's older files, vocab.json and merges.txt.
func Load(path string) (*BPE, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		dir := path
		path = filepath.Join(dir, "tokenizer.json")
		if errors.Is(statOf(path), fs.ErrNotExist) && statOf(filepath.Join(dir, vocabFile)) == nil {
			return loadVocab(dir)
		}
	}
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// statOf is the error of looking at a file.
func statOf(path string) error {
	_, err := os.Stat(path)
	return err
}
