package build

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The ID is the end of what go tool buildid prints.
func TestID(t *testing.T) {
	want, err := exec.Command("go", "tool", "buildid", os.Args[0]).Output()
	if err != nil {
		t.Skip(err)
	}
	if got := ID(); got == "" || !strings.HasSuffix(strings.TrimSpace(string(want)), "/"+got) {
		t.Errorf("%q, want the end of %q", got, want)
	}
}
