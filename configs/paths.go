package configs

import (
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/osfile"
)

// builtIn begins the names of data inside the binary.
const builtIn = "builtin:"

// path is the path that a node gives, from the working folder: one in a file begins at
// the file's folder, one of a flag, --set or a variable at the working folder already.
// key names the node in messages.
func (d *decoder) path(n *yaml.Node, key, given string) string {
	if d.origin[n] != "" || given == "" || strings.HasPrefix(given, builtIn) || filepath.IsAbs(given) {
		return given
	}
	folder := filepath.Dir(osfile.Resolve(d.file))
	if folder == "." {
		return given
	}
	path := filepath.Clean(osfile.Resolve(folder + "/" + given))
	if !matches(path) && matches(given) {
		d.fail(d.pos(n), key, "there is no %s, and paths in a config start from its folder; %s is in the working folder: give its path from %s, or move it there", path, given, folder)
	}
	return path
}

// matches reports whether a path is there, or a file that it is a pattern of.
func matches(path string) bool {
	if _, err := os.Lstat(path); err == nil {
		return true
	}
	list, err := filepath.Glob(path)
	return err == nil && len(list) > 0
}
