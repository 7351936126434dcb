package queue

import (
	"path/filepath"
	"testing"
)

// TestBeside: a job beside which something else runs is not to blame, though it was to run alone.
func TestBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	id := submitted(t, q, "a")
	begun(t, q, id, true)
	if err := q.Beside(); err != nil {
		t.Fatal(err)
	}
	q = killed(t, path)
	if j := state(t, q, id); j.State != Waiting || !j.Suspect || len(q.Blamed()) > 0 {
		t.Errorf("%s: %s, suspect %v", j.State, j.Failure(), j.Suspect)
	}
}
