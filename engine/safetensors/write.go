package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/shape"
)

// Entry is one tensor to write. Its little-endian contents are in Bytes; or Read
// fills them in when they are needed, so that one tensor at a time is in memory.
type Entry struct {
	Name  string
	Meta  shape.Meta
	Bytes []byte
	Read  func(dst []byte) error
}

// Write writes entries and metadata as one file. The tensors are sorted by element
// size, largest first, which keeps each aligned, then by name. So the bytes of the
// file do not depend on the order of entries.
func Write(w io.Writer, entries []Entry, metadata map[string]string) error {
	sorted, err := layout(entries)
	if err != nil {
		return err
	}
	header, err := encodeHeader(sorted, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	var buf []byte
	for _, e := range sorted {
		data := e.Bytes
		if e.Read != nil {
			buf = slices.Grow(buf[:0], int(e.Meta.Bytes()))[:e.Meta.Bytes()]
			data = buf
			if err := e.Read(data); err != nil {
				return fmt.Errorf("tensor %q: %w", e.Name, err)
			}
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes a file that appears at path whole or not at all. It writes it
// beside path under a temporary name, syncs it and renames it. The mode is that
// of the file it replaces; without one, the umask's.
func WriteFile(path string, entries []Entry, metadata map[string]string) error {
	if err := osfile.Replace(path, func(f *os.File) error { return Write(f, entries, metadata) }); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(path))
}

// layout checks entries and sorts them as they lie in the file.
func layout(entries []Entry) ([]Entry, error) {
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Name == metadataKey || seen[e.Name] || !utf8.ValidString(e.Name) {
			return nil, fmt.Errorf("tensor name %q is reserved, repeated or not UTF-8: rename the tensor", e.Name)
		}
		seen[e.Name] = true
		if err := e.Meta.Shape.Validate(); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
		}
		if FromShape(e.Meta.DType) == "" {
			return nil, fmt.Errorf("tensor %q: safetensors files have no type for %v", e.Name, e.Meta)
		}
		if e.Read == nil && int64(len(e.Bytes)) != e.Meta.Bytes() {
			return nil, fmt.Errorf("tensor %q: %v takes %d bytes, got %d", e.Name, e.Meta, e.Meta.Bytes(), len(e.Bytes))
		}
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Meta.DType.Size(), a.Meta.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	return sorted, nil
}

// entryHeader describes an entry in the header.
type entryHeader struct {
	DType   DType    `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// encodeHeader makes the length and the header, padded with spaces so that the data
// begins at a multiple of eight bytes.
func encodeHeader(sorted []Entry, metadata map[string]string) ([]byte, error) {
	out := append(make([]byte, lengthBytes), '{')
	var err error
	if len(metadata) > 0 {
		if out, err = appendField(out, metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	at := int64(0)
	for _, e := range sorted {
		h := entryHeader{FromShape(e.Meta.DType), append([]int{}, e.Meta.Shape...), [2]int64{at, at + e.Meta.Bytes()}}
		if out, err = appendField(out, e.Name, h); err != nil {
			return nil, err
		}
		at = h.Offsets[1]
	}
	out = append(out, '}')
	for len(out)%lengthBytes != 0 {
		out = append(out, ' ')
	}
	if len(out)-lengthBytes > maxHeader {
		return nil, fmt.Errorf("header of %d bytes is over the format's limit of %d", len(out), maxHeader)
	}
	binary.LittleEndian.PutUint64(out, uint64(len(out)-lengthBytes))
	return out, nil
}

// appendField adds a key and its value to the header's object.
func appendField(out []byte, key string, value any) ([]byte, error) {
	if len(out) > lengthBytes+1 {
		out = append(out, ',')
	}
	k, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	v, err := json.Marshal(value)
	return append(append(append(out, k...), ':'), v...), err
}
