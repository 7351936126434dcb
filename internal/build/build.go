// Package build says from which version of Berth a program was built.
package build

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Module is Berth's module.
const Module = "github.com/berth-ml/berth"

// Revision tells a build of Berth from others: its version and, in a program of Berth's own module, the
// revision. Programs of other modules with the same version have the same one.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return revision(info)
}

func revision(info *debug.BuildInfo) string {
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

// Version is the version of Berth in a build, of which it may be a dependency.
func Version(info *debug.BuildInfo) string {
	module := &info.Main
	for _, d := range info.Deps {
		if d.Path == Module {
			module = d
		}
	}
	if r := module.Replace; r != nil {
		return fmt.Sprintf("%s, replaced by %s %s", module.Version, r.Path, cmp.Or(r.Version, "(devel)"))
	}
	return cmp.Or(module.Version, "(devel)")
}
