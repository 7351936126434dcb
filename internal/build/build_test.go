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
		"v1.2.3, replaced by example.org/fork v1.3.0": {
			Main: other, Deps: []*debug.Module{{Path: Module, Version: "v1.2.3", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.3.0"}}}, Settings: settings,
		},
	}
	for want, info := range cases {
		if got := revision(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, version := range []string{"", "(devel)"} {
		folder := &debug.Module{Path: "../berth", Version: version}
		info := &debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: Module, Version: "v1.2.3", Replace: folder}}, Settings: settings}
		if got := revision(info); got != unknown {
			t.Errorf("a folder in place of the module says that it is %q", got)
		}
	}
}

// TestSameRevision: what a build does not say cannot tell it from another.
func TestSameRevision(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"v1.2.3", "v1.2.3", true},
		{"v1.2.3 abc", "v1.2.3", true},
		{"v1.2.3 abc", "v1.2.3 def", false},
		{"v1.2.3 abc true", "v1.2.3 abc", false},
		{"v1.2.3", "v1.2.4", false},
		{unknown, "v1.2.3 abc", true},
		{unknown, unknown, true},
		{"(devel) abc", "(devel) def", false},
		{"v1.2.3, replaced by example.org/fork v1.3.0", "v1.2.3", false},
	} {
		if SameRevision(c.a, c.b) != c.same || SameRevision(c.b, c.a) != c.same {
			t.Errorf("%q and %q: %v is expected", c.a, c.b, c.same)
		}
	}
}

// TestExact: a program whose source is not known, or was changed, has no name.
func TestExact(t *testing.T) {
	built := func(path, version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Path: path, Version: version}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	with := func(info *debug.BuildInfo, d *debug.Module) *debug.BuildInfo {
		info.Deps = []*debug.Module{d}
		return info
	}
	clean := []string{"vcs.revision", "abc", "vcs.modified", "false"}
	for i, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{built(Module, "(devel)", clean...), Module + " abc"},
		{built(Module, "v1.2.3"), Module + " v1.2.3"},
		{built(Module, "(devel)"), ""},
		{built(Module, ""), ""},
		{built(Module, "v1.2.3", "vcs.revision", "abc", "vcs.modified", "true"), ""},
		{built(Module, "v1.2.3", "vcs.revision", "abc"), ""},
		{with(built("example.org/x", "(devel)", clean...), &debug.Module{Path: Module, Version: "v1.2.3"}), "example.org/x abc"},
		{with(built("example.org/x", "(devel)", clean...), &debug.Module{Path: Module, Version: "v1.2.3", Replace: &debug.Module{Path: "../berth"}}), ""},
		{with(built("example.org/x", "(devel)", clean...), &debug.Module{Path: Module, Version: "(devel)"}), ""}, // of a workspace
	} {
		if got := ExactOf(c.info); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}
