package datasets

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// openNpz opens one array of a zip archive of .npy files.
func openNpz(ctx context.Context, path, name string) (*array, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	a, err := parseNpz(ctx, f, size, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	member := a.in.close
	a.in.close = func() error { return errors.Join(member(), f.Close()) }
	return a, nil
}

// parseNpz is openNpz for an archive of size bytes, which r reads.
func parseNpz(ctx context.Context, r io.ReaderAt, size int64, name string) (*array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: npz: the archive is cut off or damaged (%v): copy or download it again", ErrFormat, err)
	}
	var names []string
	for _, f := range z.File {
		if f.Name != name+".npy" {
			names = append(names, strings.TrimSuffix(f.Name, ".npy"))
			continue
		}
		in, err := unzip(ctx, f, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		a, err := parseNpy(in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", f.Name, err), in.Close())
		}
		return a, nil
	}
	return nil, fmt.Errorf("%w: npz: there is no array %q among %s: set the name of one", ErrFormat, name, few(names))
}

// unzip reads a file in an archive of size bytes, up to the unpackLimit of that
// size. The length that the archive gives for the file is not trusted.
func unzip(ctx context.Context, f *zip.File, size int64) (*stream, error) {
	r, err := f.Open()
	if err = unpackError(err); err != nil && !errors.Is(err, ErrFormat) {
		err = fmt.Errorf("%w: the archive is damaged (%v): copy or download it again", ErrFormat, err)
	}
	if err != nil {
		return nil, err
	}
	limit := unpackLimit(size)
	return &stream{Reader: &limitReader{&contextReader{ctx, r}, limit}, close: r.Close, left: limit, packed: true}, nil
}
