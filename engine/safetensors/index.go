package safetensors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/osfile"
)

// indexSuffix ends the name of an index: a JSON file that says for each tensor of a
// model which file beside it has the tensor.
const indexSuffix = ".index.json"

// openIndex opens the files that the index at path names, as one.
func openIndex(ctx context.Context, path string) (*File, error) {
	where, err := readIndex(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var parts []part
	var tensors []Tensor
	for _, name := range slices.Compact(slices.Sorted(maps.Values(where))) {
		f, err := openPart(ctx, path, name)
		if err == nil {
			parts = append(parts, f.parts...)
			tensors, err = appendNamed(tensors, f, len(parts)-1, name, where)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), newFile(parts, nil, nil).Close())
		}
	}
	return newFile(parts, tensors, nil), nil
}

// readIndex reads the names of the files, by those of the tensors.
func readIndex(path string) (map[string]string, error) {
	text, err := osfile.Read(path, maxHeader+1)
	if err != nil {
		return nil, err
	}
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil || len(text) > maxHeader {
		return nil, bad("it is not an index of safetensors files: %v", err)
	}
	if len(index.Files) > maxTensors {
		return nil, bad("the index has %d tensors, more than %d", len(index.Files), maxTensors)
	}
	if len(index.Files) == 0 {
		return nil, bad("it is not an index of safetensors files: it has no weight_map")
	}
	return index.Files, nil
}

// openPart opens a file that an index names, which must be beside it.
func openPart(ctx context.Context, index, name string) (*File, error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name || strings.HasSuffix(name, indexSuffix) {
		return nil, bad("the index names the file %q, which is not in its folder", name)
	}
	return openPlain(ctx, filepath.Join(filepath.Dir(index), name))
}

// appendNamed appends the tensors of a part that the index names there.
func appendNamed(tensors []Tensor, f *File, part int, name string, where map[string]string) ([]Tensor, error) {
	for tensor, file := range where {
		if file != name {
			continue
		}
		t, err := f.Lookup(tensor)
		if err != nil {
			return nil, bad("%s: the tensor %q is missing, although the index says that it is in this file", name, tensor)
		}
		t.part = part
		tensors = append(tensors, t)
	}
	return tensors, nil
}
