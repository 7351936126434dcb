package osfile

import (
	"path/filepath"
	"runtime"
	"strings"
)

// Resolve removes the ".." from a path as Unix does: behind a link, it is the folder
// above the link's target, where [filepath.Join] and [filepath.Clean] take the one
// above the link. A caller that joins a name to a user's folder resolves the folder
// first; other links stay. On Windows the path stays, since the system cleans it.
func Resolve(path string) string {
	if runtime.GOOS == "windows" || !strings.Contains(path, "..") {
		return path
	}
	at := ""
	if filepath.IsAbs(path) {
		at = "/"
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." {
			if real, err := filepath.EvalSymlinks(at); err == nil && at != "" {
				at = real
			}
		}
		at = filepath.Join(at, name)
	}
	return at
}

// Real is a path without links, from the root. Of one that leads nowhere, links stay.
func Real(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
