package datasets

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/osfile"
)

// bin is the contents of a .bin file.
func bin(ids ...uint16) string {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint16(b, id)
	}
	return string(b)
}

// A folder's train.bin and val.bin are its parts; a single file is split.
func TestBin(t *testing.T) {
	dir := inFolder(t, map[string]string{"train.bin": bin(15496, 11, 995, 0, 50256), "val.bin": bin(11, 11, 11)})
	s := Spec{Source: "text", Path: dir, KeepOrder: true, Text: TextOptions{Context: 2, Tokenizer: "gpt2"}}
	ds := open(t, s)
	if got := textOf(t, ds); got != "Hello, world!" || ds.Val.Len() != 1 || ds.Info.Tokens != 50257 {
		t.Errorf("%q and %d windows of %d tokens", got, ds.Val.Len(), ds.Info.Tokens)
	}
	s.Path, s.Split = filepath.Join(dir, trainBin), 1
	if got := textOf(t, open(t, s)); got != "Hello, world!" {
		t.Errorf("%q", got)
	}
	parts, err := OpenInputs(t.Context(), s, &ds.Info, s.Path)
	if err != nil || len(parts) != 2 || parts[0].Len() != 2 {
		t.Errorf("inputs: %v", err)
	}
}

func TestBinRefused(t *testing.T) {
	for _, c := range []struct {
		files     map[string]string
		tokenizer string
		blame     string
		says      string
	}{
		{map[string]string{"train.bin": bin(1, 2), "meta.pkl": "x"}, "char", "path", "meta.pkl is a Python pickle"},
		{map[string]string{"train.bin": bin(1, 2)}, "char", "tokenizer", "set data.tokenizer to the tokenizer that they are of"},
		{map[string]string{"train.bin": bin(1, 2)}, "bpe:300", "tokenizer", "set data.tokenizer"},
		{map[string]string{"train.bin": bin(1, 2) + "x"}, "gpt2", "path", "has 5 bytes"},
		{map[string]string{"train.bin": bin(1, 50257)}, "gpt2", "tokenizer", "token 1 of "},
		{map[string]string{"train.bin": ""}, "gpt2", "path", "is empty"},
		{map[string]string{"a.txt": "a", "b.bin": "b"}, "gpt2", "path", "b.bin holds token ids"},
		{map[string]string{"val.bin": bin(1, 2)}, "gpt2", "path", "give that file alone, or a folder with train.bin"},
		{map[string]string{"train.bin": bin(1, 2), "val.bin": ""}, "gpt2", "context", "put more tokens into train.bin and val.bin"},
		{map[string]string{"meta.pkl": "x"}, "char", "path", "meta.pkl is a Python pickle"},
	} {
		s := Spec{Source: "text", Path: inFolder(t, c.files), Text: TextOptions{Context: 1, Tokenizer: c.tokenizer}}
		_, err := Open(t.Context(), s)
		if err == nil || Blame(err) != c.blame || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v with %s: blames %s: %v", c.files, c.tokenizer, Blame(err), err)
		}
	}
}

// A file that is cut short while it is read is an error, and no end of the process.
func TestBinShrinks(t *testing.T) {
	path := write(t, "x.bin", string(make([]byte, 1<<17)))
	ds := open(t, Spec{Source: "text", Path: path, Text: TextOptions{Context: 1 << 10, Tokenizer: "gpt2"}})
	if err := os.Truncate(path, 0); err != nil {
		t.Skip(err)
	}
	_, err := ds.Train.Read(Cursor{}, 1, ds.Train.Alloc(1))
	if err != nil && !errors.Is(err, osfile.ErrShrunk) || err == nil && runtime.GOOS == "linux" {
		t.Error(err)
	}
}

func FuzzBin(f *testing.F) {
	f.Add([]byte(bin(15496, 11, 995, 0, 50256)))
	f.Add([]byte(bin(50257)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Spec{Source: "text", Path: write(t, "train.bin", string(b)), Split: 1, Text: TextOptions{Context: 1, Tokenizer: "gpt2"}}
		if ds, err := Open(t.Context(), s); err == nil && ds.Train.Len() != len(b)/2-1 {
			t.Fatalf("%d windows of %d bytes", ds.Train.Len(), len(b))
		}
	})
}
