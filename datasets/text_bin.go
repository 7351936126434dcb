package datasets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
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
		if _, err := os.Stat(val); err != nil || s.Division != nil {
			val = ""
		}
	}
	t, err := binTokenizer(s, path)
	if err != nil {
		return nil, err
	}
	ids, err := readBin(ctx, path, t)
	if err != nil {
		return nil, err
	}
	if val == "" {
		return splitOrWhole(s, func(fraction float64) (*Dataset, error) { return splitText(ctx, s, t, ids, fraction) })
	}
	valIDs, err := readBin(ctx, val, t)
	if err != nil {
		return nil, err
	}
	sum, err := textSum(ctx, t, &ids, &valIDs)
	if err != nil {
		return nil, err
	}
	return textDataset(ctx, s, t, sum, "shorten the context, or put more tokens into "+trainBin+" and "+valBin, textParts{train: ids, val: &valIDs})
}

// binTokenizer is the tokenizer that the ids in a file are of.
func binTokenizer(s Spec, path string) (tokenizer.Tokenizer, error) {
	switch {
	case s.Text.Field != "":
		return nil, blame("field", fmt.Errorf("%w: %s holds token ids: leave data.field out", ErrSpec, path))
	case len(s.Text.More) > 0:
		return nil, fmt.Errorf("%w: %s holds token ids: give no other path", ErrSpec, path)
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

// readBin maps a file of ids of a tokenizer.
func readBin(ctx context.Context, path string, t tokenizer.Tokenizer) (ids textIDs, err error) {
	f, size, err := files.OpenPlain(path)
	if err != nil {
		return ids, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size%2 != 0 {
		return ids, fmt.Errorf("%w: %s has %d bytes, but each token takes 2: copy it again", ErrFormat, path, size)
	}
	m, err := osfile.Map(f, size)
	if err != nil {
		return ids, err
	}
	ids = textIDs{data: m.Bytes(), width: 2, mapping: m}
	if err := ids.guard(func() error { return ids.checkBelow(ctx, path, t.Len()) }); err != nil {
		return ids, err
	}
	ids.sum, err = ids.hash(ctx)
	return ids, err
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
