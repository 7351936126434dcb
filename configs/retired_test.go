package configs

import (
	"strings"
	"testing"
)

// The file of an older run may have keys that are gone: they are passed over, with a note.
func TestRetiredKeys(t *testing.T) {
	c := parse(t, smallOn("\n  use: cpu:2\n  evict: lru\n  timeout: 1m"), Overlay{})
	if c.Devices.Use != "cpu:2" || c.Devices.Timeout.Minutes() != 1 {
		t.Errorf("read as %+v", c.Devices)
	}
	if len(c.Retired) != 1 || !strings.Contains(c.Retired[0], "devices.evict is gone, and passed over: ") {
		t.Errorf("notes %q", c.Retired)
	}
	if c := parse(t, smallOn("cpu:2"), Overlay{}); len(c.Retired) != 0 || c.Devices.Use != "cpu:2" {
		t.Errorf("notes %q, devices %+v", c.Retired, c.Devices)
	}
	_, err := Parse("x", []byte(smallOn("cpu")), Overlay{Set: []string{"devices.evict=lru"}})
	if err == nil || !strings.Contains(err.Error(), "devices.evict is gone: ") {
		t.Errorf("--set: %v", err)
	}
}
