package fuse_test

import (
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/ops"
)

func TestEveryOpHasARule(t *testing.T) {
	if got, want := fuse.Kinds(), ops.Kinds(); !slices.Equal(got, want) {
		t.Errorf("rules are for\n%v\nops are\n%v", got, want)
	}
}
