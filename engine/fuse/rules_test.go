package fuse_test

import (
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/ops"
)

func TestEveryOpHasARule(t *testing.T) {
	rules, kinds := fuse.Kinds(), ops.Kinds()
	for _, kind := range kinds {
		if !slices.Contains(rules, kind) {
			t.Errorf("no rule for %s", kind)
		}
	}
	for _, kind := range rules {
		if !slices.Contains(kinds, kind) {
			t.Errorf("a rule for %s, which is no op", kind)
		}
	}
}
