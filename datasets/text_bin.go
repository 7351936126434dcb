package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/datasets/tokenizer"
)

// Files of nanoGPT: token ids of 16 bits, little-endian.
const (
	binSuffix = ".bin"
	trainBin  = "train.bin"
	valBin    = "val.bin"
	metaName  = "meta.pkl"
)

// isBin reports whether a path is a .bin file, or a folder with train.bin.
func isBin(path string) bool {
	if strings.HasSuffix(path, binSuffix) {
		return true
	}
	_, err := os.Stat(filepath.Join(path, trainBin))
	return err == nil
}

// refuseMeta refuses the vocabulary that nanoGPT writes for characters.
func refuseMeta(path string) error {
	return fmt.Errorf("%w: %s is a Python pickle, which is not read: set data.path to the text that it was made from; data.tokenizer char numbers its characters alike",
		ErrFormat, path)
}

// openBin opens the token ids of a .bin file, split as the options ask, or of a
// folder's train.bin and val.bin.
func openBin(ctx context.Context, s Spec) (*Dataset, error) {
	path, val := s.Path, ""
	if !strings.HasSuffix(path, binSuffix) {
		path, val = filepath.Join(s.Path, trainBin), filepath.Join(s.Path, valBin)
		if _, err := os.Stat(val); err != nil {
			val = ""
		}
	}
	t, err := binTokenizer(s, path)
	if err != nil {
		return nil, err
	}
	ids, err := readBin(ctx, path, t, s.Memory)
	if err != nil {
		return nil, err
	}
	if val == "" {
		return splitOrWhole(s, func(fraction float64) (*Dataset, error) { return splitText(ctx, s, t, ids, fraction) })
	}
	valIDs, err := readBin(ctx, val, t, s.Memory)
	if err != nil {
		return nil, err
	}
	return textDataset(ctx, s, t, ids, &valIDs)
}

// binTokenizer is the tokenizer that the ids in a file are of.
func binTokenizer(s Spec, path string) (tokenizer.Tokenizer, error) {
	if s.Text.Field != "" || len(s.Text.More) > 0 {
		return nil, fmt.Errorf("%w: %s holds token ids: leave data.field out, and give no other path", ErrSpec, path)
	}
	if t := s.knownTokenizer(); t != nil {
		return t, nil
	}
	name := s.Text.Tokenizer
	if name != "" && name != "char" && !strings.HasPrefix(name, learnPrefix) {
		return namedTokenizer(name)
	}
	if meta := filepath.Join(filepath.Dir(path), metaName); name == "" || name == "char" {
		if _, err := os.Stat(meta); err == nil {
			return nil, refuseMeta(meta)
		}
	}
	return nil, blame("tokenizer", fmt.Errorf("%w: %s holds token ids: set data.tokenizer to the tokenizer that they are of: gpt2, bytes or a tokenizer.json", ErrSpec, path))
}

// readBin reads ids of a tokenizer.
func readBin(ctx context.Context, path string, t tokenizer.Tokenizer, memory int64) (ids textIDs, err error) {
	f, size, err := openFile(path)
	if err != nil {
		return ids, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size%2 != 0 {
		return ids, fmt.Errorf("%w: %s has %d bytes, but each token takes 2: copy it again", ErrFormat, path, size)
	}
	if err := fits(path, size, memory); err != nil {
		return ids, err
	}
	ids = textIDs{data: make([]byte, size), width: 2}
	if _, err := io.ReadFull(&contextReader{ctx, f}, ids.data); err != nil {
		return ids, fmt.Errorf("%s: %w", path, err)
	}
	return ids, ids.checkBelow(ctx, path, t.Len())
}

// checkBelow refuses ids of two bytes that a tokenizer does not have.
func (t *textIDs) checkBelow(ctx context.Context, path string, count int) error {
	return inPieces(ctx, t.len(), pieceBytes, func(from, to int) error {
		for i := from; i < to; i++ {
			if id := binary.LittleEndian.Uint16(t.data[2*i:]); int(id) >= count {
				return blame("tokenizer", fmt.Errorf("%w: token %d of %s is %d, but the tokenizer has %d tokens: set data.tokenizer to the one that made the file",
					ErrFormat, i, path, id, count))
			}
		}
		return nil
	})
}
