package datasets

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// readNpz reads one array of a zip archive of .npy files.
func readNpz(file []byte, name string) (*array, error) {
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("%w: npz: the archive is cut off or damaged (%v): copy or download it again", ErrFormat, err)
	}
	var names []string
	for _, f := range z.File {
		if f.Name != name+".npy" {
			names = append(names, strings.TrimSuffix(f.Name, ".npy"))
			continue
		}
		data, err := unzip(f, int64(len(file)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		return parseNpy(data)
	}
	return nil, fmt.Errorf("%w: npz: there is no array %q among %.200q: set the name of one", ErrFormat, name, names)
}

// unzip reads a file in an archive of size bytes, up to the unpackLimit of that
// size. The length that the archive gives for the file is not trusted.
func unzip(f *zip.File, size int64) ([]byte, error) {
	var b bytes.Buffer
	r, err := f.Open()
	if err == nil {
		_, err = b.ReadFrom(&limitReader{r, unpackLimit(size)})
		err = errors.Join(err, r.Close())
	}
	if err = unpackError(err); err != nil && !errors.Is(err, ErrFormat) {
		err = fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return b.Bytes(), err
}
