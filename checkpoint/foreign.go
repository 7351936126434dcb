package checkpoint

import (
	"context"
	"errors"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// Foreign reports whether the file at path has contents, and none that this program
// wrote: it is somebody else's, whatever its name. No process may write to it meanwhile.
// ctx ends the search through a file that has lost its beginning.
func Foreign(ctx context.Context, path string) (bool, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if fresh, err := neverUsed(f); fresh || err != nil {
		return false, err
	}
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	if im, err := openImage(f, st.Size()); err == nil {
		if err = im.checkFormat(); err == nil || errors.Is(err, ErrFormat) {
			return false, nil
		}
	}
	s, err := newScan(ctx, f, st.Size())
	if err != nil {
		return false, err
	}
	return len(s.manifests)+len(s.heads) == 0, nil
}
