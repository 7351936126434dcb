package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersionText(t *testing.T) {
	platform := fmt.Sprintf("platform  %s/%s\ncpu       avx2\n", runtime.GOOS, runtime.GOARCH)
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "68931bb0"}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "false"}}},
			"berth     v1.2.3\nrevision  68931bb0\ngo        go1.26.8\n"},
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}},
			"berth     (devel)\nrevision  68931bb0 (modified)\njobs      are all trained, also those that were trained before (docs/jobs.md)\ngo        go1.26.8\n"},
		{debug.BuildInfo{GoVersion: "go1.26.8"},
			"berth     (devel)\nrevision  unknown (built without version control)\njobs      are all trained, also those that were trained before (docs/jobs.md)\ngo        go1.26.8\n"},
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/berth-ml/berth", Version: "v1.2.3"}},
			"berth     v1.2.3\nrevision  unknown (built without version control)\ngo        go1.26.8\n"},
		{debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/waves", Version: "v0.3.0"},
			Deps: []*debug.Module{{Path: "github.com/berth-ml/berth", Version: "v1.2.3"}}, Settings: []debug.BuildSetting{revision}},
			"program   example.com/waves v0.3.0\nberth     v1.2.3\nrevision  68931bb0\ngo        go1.26.8\n"},
	} {
		if got := versionText(&c.info, "avx2"); got != c.want+platform {
			t.Errorf("got:\n%swant:\n%s", got, c.want+platform)
		}
	}
}
