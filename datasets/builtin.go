package datasets

import (
	"bytes"
	"context"
	"embed"

	"github.com/berth-ml/berth/datasets/files"
)

// builtin is the data inside the binary. data/README.md names the origin of each
// file.
//
//go:embed data/*.gz
var builtin embed.FS

// openBuiltin opens a file inside the binary.
func openBuiltin(ctx context.Context, name string) (*files.Stream, error) {
	data, err := builtin.ReadFile("data/" + name)
	if err != nil {
		return nil, err
	}
	return files.NewStream(ctx, name, bytes.NewReader(data), int64(len(data)))
}
