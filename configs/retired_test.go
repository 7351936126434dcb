package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestRetiredKeys reads the files of old runs: a key that is gone is passed over, with a note.
func TestRetiredKeys(t *testing.T) {
	for text, want := range map[string][]string{
		smallOn("\n  use: cpu\n  op_by_op: log\n  op_by_op_log: x"): {"a.yaml:6: devices.op_by_op_log is gone, and passed over: the log of op_by_op goes to standard error"},
		smallOn("\n  use: cpu\n  evict: next-use"):                  nil,
		smallOn("\n  use: cpu:2\n  evict: lru\n  timeout: 1m"):      {"a.yaml:5: devices.evict is gone, and passed over: what is not needed for longest"},
		smallOn("cpu"):   nil,
		smallOn("[cpu]"): nil,
		small:            nil,
	} {
		c, err := Parse("a.yaml", []byte(text), Overlay{})
		if err != nil || !slices.EqualFunc(c.Notes, want, strings.HasPrefix) {
			t.Errorf("%s: notes %q, %v, expected %q", text, c.Notes, err, want)
			continue
		}
		roundTrip(t, c)
	}
}

// TestRetiredElsewhere refuses what only resembles a key that is gone.
func TestRetiredElsewhere(t *testing.T) {
	for _, text := range []string{small + "op_by_op_log: x\n", strings.Replace(small, "batch: 2", "batch: 2, op_by_op_log: x", 1)} {
		if _, err := Parse("a.yaml", []byte(text), Overlay{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "op_by_op_log: unknown key") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
