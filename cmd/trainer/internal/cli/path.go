package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/internal/edit"
)

// NoFile is the error of a file that a user named and that is not there. do says what to name.
func NoFile(path, do string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		full = path
	}
	list, _ := os.ReadDir(filepath.Dir(path)) // without the folder, no name is near
	var beside []string
	for _, f := range list {
		beside = append(beside, filepath.Join(filepath.Dir(path), f.Name()))
	}
	return Usagef("there is no file %q: its full path is %s; %s%s", path, full, do, DidYouMean(path, beside))
}

// DidYouMean asks about the path among those in the same folder that a misspelt one probably
// means; "" where none is near.
func DidYouMean(path string, paths []string) string {
	path = filepath.Clean(path)
	near := edit.Nearest(path, paths, len(filepath.Base(path))/3)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}
