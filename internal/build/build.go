// Package build says from which version of Berth a program was built.
package build

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
)

// Module is Berth's module.
const Module = "github.com/berth-ml/berth"

// unknown is the Revision of a build that does not say, and the version of a module that has none.
const unknown = "(devel)"

// Revision tells a build of Berth from others: its version and, in a program of Berth's own module, the
// revision. Programs of other modules with the same version have the same one. Of a folder that replaces Berth's module
// no build says the revision.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return revision(info)
}

// SameRevision reports whether two builds are of one, as far as both say.
func SameRevision(a, b string) bool {
	if a == unknown || b == unknown {
		return true
	}
	v, of, told := strings.Cut(a, " ")
	w, other, also := strings.Cut(b, " ")
	return v == w && (!told || !also || of == other)
}

func revision(info *debug.BuildInfo) string {
	module := moduleOf(info)
	if r := module.Replace; r != nil && (r.Version == "" || r.Version == unknown) {
		return unknown
	}
	text := Version(info)
	if info.Main.Path != Module {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			text += " " + s.Value
		}
	}
	return text
}

// Exact names all of the source that a program was built from; "" where that is not known, or was changed since it was
// committed. Two programs with the same name compute the same.
func Exact() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return ExactOf(info)
}

// ExactOf is Exact of another build.
func ExactOf(info *debug.BuildInfo) string {
	for _, d := range info.Deps {
		if r := d.Replace; d.Version == "" || d.Version == unknown || r != nil && (r.Version == "" || r.Version == unknown) {
			return ""
		}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	switch {
	case revision != "" && settings["vcs.modified"] != "false":
		return ""
	case revision == "" && (info.Main.Version == "" || info.Main.Version == unknown):
		return ""
	case revision == "": // go install MODULE@VERSION
		revision = info.Main.Version
	}
	return info.Main.Path + " " + revision
}

// Version is the version of Berth in a build, of which it may be a dependency.
func Version(info *debug.BuildInfo) string {
	module := moduleOf(info)
	if r := module.Replace; r != nil {
		return fmt.Sprintf("%s, replaced by %s %s", module.Version, r.Path, cmp.Or(r.Version, unknown))
	}
	return cmp.Or(module.Version, unknown)
}

// moduleOf is Berth's module in a build.
func moduleOf(info *debug.BuildInfo) *debug.Module {
	for _, d := range info.Deps {
		if d.Path == Module {
			return d
		}
	}
	return &info.Main
}
