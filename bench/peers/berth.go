package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// newBerth builds this tree's trainer into dir.
func newBerth(ctx context.Context, o options, dir string) ([]program, error) {
	bin := filepath.Join(dir, "trainer")
	if err := goBuild(ctx, o.root, bin, "./cmd/trainer"); err != nil {
		return nil, err
	}
	in := func(precision string) func(context.Context, string) (sample, error) {
		return func(ctx context.Context, workload string) (sample, error) {
			var ss [1]sample
			c := exec.CommandContext(ctx, bin, "bench", workload, "--json", "--threads", strconv.Itoa(o.threads),
				"--seconds", fmt.Sprint(o.seconds), "--precision", precision)
			// The command measures its own memory: it also multiplies large
			// matrices, which is no part of training.
			err := output(c, &ss, &ss[0].PeakResidentBytes)
			return ss[0], err
		}
	}
	return []program{
		{family: berthName, does: every, run: in("float32")},
		{family: bf16Name, does: func(w string) bool { return w != "cnn" && w != "resnet-18" }, run: in("bf16")},
	}, nil
}
