package ui

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// A file with a time that JSON does not have, as a damaged disk may give it, leaves its run readable: the time is not known.
func TestTimesThatJSONDoesNotHave(t *testing.T) {
	folder := copied(t, "a", "b")
	path := filepath.Join(folder, "a", rundir.MetricsName)
	late := syscall.Timespec{Sec: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()}
	if err := syscall.UtimesNano(path, []syscall.Timespec{late, late}); err != nil {
		t.Skip(err)
	}
	if st, err := os.Stat(path); err != nil || st.ModTime().UTC().Year() != 20000 {
		t.Skip("the file system has no such times")
	}
	c := serve(t, Options{Folder: folder})
	a, b := c.id(t, "a"), c.id(t, "b")
	var p struct {
		Run struct{ State, Changed string }
	}
	for id, known := range map[string]bool{a: false, b: true} {
		if c.get(t, "/api/run?run="+id, &p); p.Run.State != "finished" || known != (p.Run.Changed != "") {
			t.Errorf("known: %v, and the run is %+v", known, p.Run)
		}
		p.Run.Changed = ""
	}
	if status, body, _ := c.do(t, c.request(t, "/api/compare?run="+a+"&run="+b)); status != 200 {
		t.Errorf("compared: %d %s", status, body)
	}
}
