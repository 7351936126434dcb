package tokenizer

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/osfile"
)

// mostFile is the most bytes of a file. The largest in use have half of them.
const mostFile = 64 << 20

// readFile reads a file of a tokenizer.
func readFile(path string) ([]byte, error) {
	b, err := osfile.Read(path, mostFile+1)
	switch {
	case errors.Is(err, osfile.ErrNotFile):
		return nil, fmt.Errorf("%w: %s is not a file: give the path of a tokenizer.json", ErrFormat, path)
	case err != nil:
		return nil, err
	case len(b) > mostFile:
		return nil, fmt.Errorf("%w: %s has more than %d MiB: is it the right file?", ErrFormat, path, mostFile>>20)
	}
	return b, nil
}
