// Command saves measures what checkpoints of a gpt2 with AdamW, 1.49 GB, cost
// the training: the time for which it stands still, the slowdown of steps
// during a save, and the memory of a save beside the training's own.
//
//	cd bench/peers
//	go run ./saves            # some three minutes
//	go run ./saves -dir /mnt  # on another disk than that of temporary files
//
// BenchmarkSaveGPT2 in checkpoint/ compares the speed of a save with PyTorch's.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

const config = `
data: {source: text, path: "builtin:shakespeare", context: 64}
model: {preset: gpt, layers: 12, heads: 12, width: 768, context: 1024, vocab: 50257}
train: {epochs: 1, batch: 4}
optimizer: {name: adamw, lr: 0.00001}
`

// least bounds a save's memory so tightly that the peak is the training's own.
const least = "1MiB"

func main() {
	root := flag.String("root", "../..", "folder of Berth's source")
	dir := flag.String("dir", "", "folder on the disk to save to (default that of temporary files)")
	steps := flag.Int("steps", 40, "steps of a run")
	every := flag.Int("every", 10, "steps between two saves")
	flag.Parse()
	if err := run(*root, *dir, *steps, *every); err != nil {
		fmt.Fprintln(os.Stderr, "saves:", err)
		os.Exit(1)
	}
}

func run(root, dir string, steps, every int) (err error) {
	if dir, err = os.MkdirTemp(dir, "saves"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "trainer"), "./cmd/trainer")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "gpt2.yaml"), []byte(config), 0o644); err != nil {
		return err
	}
	own, err := train(dir, least, 2, 0)
	if err != nil {
		return err
	}
	fmt.Printf("%-9s %6s %8s %7s %9s %9s %11s %9s\n", "staging", "saves", "save s", "MB/s", "stall ms", "of save", "slowdown", "MiB more")
	for _, staging := range []string{"whole", "256MiB"} {
		m, err := train(dir, staging, steps, every)
		if err != nil {
			return err
		}
		c := m.Checkpoints
		fmt.Printf("%-9s %6d %8.2f %7.0f %9.1f %8.1f%% %10.0f%% %9d\n", staging, c.Count, c.SaveMS/1e3, c.MBPerS, c.StallMS, 100*c.StallMS/c.SaveMS,
			100*c.Slowdown, (m.peak-own.peak)>>20)
	}
	return nil
}

// measured is a part of a run's report, and its peak memory in bytes.
type measured struct {
	Checkpoints struct {
		Count    int     `json:"count"`
		SaveMS   float64 `json:"save_ms"`
		MBPerS   float64 `json:"mb_per_s"`
		StallMS  float64 `json:"stall_ms"`
		Slowdown float64 `json:"slowdown"`
	} `json:"checkpoints"`
	peak int64
}

// train runs some steps. It saves every so many steps, and at the end.
func train(dir, staging string, steps, every int) (m measured, err error) {
	c := exec.Command("./trainer", "train", "gpt2.yaml", "--run", "run", "--fresh", "--quiet", "--max-steps", strconv.Itoa(steps), "--report", "report.json",
		"--set", "checkpoint.staging="+staging, "--set", "checkpoint.every="+strconv.Itoa(every))
	c.Dir, c.Stderr = dir, os.Stderr
	if err := c.Run(); err != nil {
		return m, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return m, err
	}
	if use, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.peak = use.Maxrss << 10 // in KiB on Linux
	}
	return m, errors.Join(json.Unmarshal(text, &m), os.RemoveAll(filepath.Join(dir, "run")))
}
