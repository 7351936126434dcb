package build

import (
	"runtime/debug"
	"testing"
)

// TestRevision: the revision of another module's program is not that of Berth.
func TestRevision(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	other := debug.Module{Path: "example.org/x", Version: "v9.0.0"}
	cases := map[string]*debug.BuildInfo{
		"v1.2.3 abc true": {Main: debug.Module{Path: Module, Version: "v1.2.3"}, Settings: settings},
		"(devel)":         {Main: debug.Module{Path: Module}},
		"v1.2.3":          {Main: other, Deps: []*debug.Module{{Path: Module, Version: "v1.2.3"}}, Settings: settings},
		"v1.2.3, replaced by ../berth (devel)": {
			Main: other, Deps: []*debug.Module{{Path: Module, Version: "v1.2.3", Replace: &debug.Module{Path: "../berth"}}}, Settings: settings,
		},
	}
	for want, info := range cases {
		if got := revision(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
