package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// newGoMLX builds the twin into dir, with SIMD if this Go has it: that makes
// GoMLX's matrix products several times as fast.
func newGoMLX(ctx context.Context, o options, dir string) ([]program, error) {
	twin := filepath.Join(o.root, "bench", "peers", "gomlx")
	bin := filepath.Join(dir, "gomlx")
	variant := "pure Go with SIMD"
	if err := goBuild(ctx, twin, bin, ".", "GOEXPERIMENT=simd"); err != nil {
		variant = "pure Go"
		if err := goBuild(ctx, twin, bin, "."); err != nil {
			return nil, fmt.Errorf("the go command could not fetch and build it: %w", err)
		}
	}
	run := func(ctx context.Context, _ string) (s sample, err error) {
		c := exec.CommandContext(ctx, bin, "-threads", strconv.Itoa(o.threads), "-seconds", fmt.Sprint(o.seconds))
		err = output(c, &s, &s.PeakResidentBytes)
		return s, err
	}
	return []program{{family: gomlxName, variant: variant, does: only("mlp"), run: run}}, nil
}
