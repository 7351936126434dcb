//go:build unix

package ui

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/osfile"
)

// A pipe in the place of a file of a run is not opened, or it would wait for its other end: that run says so, and others are shown.
func TestPipes(t *testing.T) {
	files := []string{rundir.ConfigName, rundir.MetricsName, rundir.CheckpointsName, rundir.ReportName, rundir.LogName, rundir.OlderLogName, rundir.CheckpointsName + ".pid", rundir.TokenizerName}
	names := []string{"good"}
	for i := range files {
		names = append(names, fmt.Sprint("pipe-", i))
	}
	folder := copied(t, names...)
	for i, name := range files {
		path := filepath.Join(folder, names[i+1], name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Skip(err)
		}
	}
	c := serve(t, Options{Folder: folder})
	v := c.table(t)
	states := map[string]string{}
	for _, r := range v.Rows {
		states[filepath.Base(r.Run.Run)] = r.Run.State + r.Run.Error
	}
	for i, name := range files {
		run := names[i+1]
		own := i < len(rundir.ReadFiles) && name != rundir.CheckpointsName
		if got := states[run]; own != strings.HasPrefix(got, "unreadable"+filepath.Join(osfile.Real(folder), run, name)+": it is a link or no plain file") || name == rundir.CheckpointsName && got != "" || !own && name != rundir.CheckpointsName && got != "finished" {
			t.Errorf("%s: %q", name, got)
		}
		if states[run] == "" { // it is no run
			continue
		}
		id := c.id(t, run)
		for _, path := range []string{"/api/run?run=", "/api/curves?panel=loss&x=step&columns=100&run="} {
			if status, body, _ := c.do(t, c.request(t, path+id)); status != http.StatusOK && (status == http.StatusInternalServerError || !own) {
				t.Errorf("%s: %s: %d %s", name, path, status, body)
			}
		}
		s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&log=%s", v.Instance, v.Version, id))
		for s.next(nil) != "log" {
		}
		s.cut()
	}
	if states["good"] != "finished" {
		t.Errorf("a run beside them: %q", states["good"])
	}
}
