package safetensors

import (
	"context"
	"strings"
)

// Open reads and validates the header of the file at path, which ctx ends. Where the
// path ends in ".index.json", it is an index, and the files that it names are read.
// The caller must Close the file.
func Open(ctx context.Context, path string) (*File, error) {
	if strings.HasSuffix(path, indexSuffix) {
		return openIndex(ctx, path)
	}
	return openPlain(ctx, path)
}
