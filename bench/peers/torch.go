package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// variant is a way to run PyTorch.
type variant struct {
	family, name string
	env          []string
	flags        map[string][]string // of the twin, by workload
}

// newTorch makes the programs that run PyTorch, as installed and tuned. On a CPU
// with AVX-512 each also runs with OpenBLAS's products for Skylake-X, which
// OpenBLAS does not always take by itself.
func newTorch(ctx context.Context, o options, log io.Writer) ([]program, error) {
	python, err := findPython(ctx, o.python)
	if err != nil {
		return nil, err
	}
	twin := filepath.Join(o.root, "bench", "peers", "torch_twin.py")
	var ps []program
	for _, v := range variants(hasAVX512(), openMP(log)) {
		env := append(os.Environ(), v.env...)
		run := func(ctx context.Context, workload string) (s sample, err error) {
			args := append([]string{twin, workload, "--threads", strconv.Itoa(o.threads), "--seconds", fmt.Sprint(o.seconds)}, v.flags[workload]...)
			c := exec.CommandContext(ctx, python, args...)
			c.Env = env
			err = output(c, &s, &s.PeakResidentBytes)
			return s, err
		}
		ps = append(ps, program{family: v.family, variant: v.name, does: every, run: run, python: python, env: env})
	}
	return ps, nil
}

// variants lists the ways to run PyTorch 1.13 that are worth a turn. Tuned it
// has: an OpenBLAS on PyTorch's own threads, since two pools of threads spin
// against each other; memory that the C library keeps, in huge pages, since
// page faults were half of gpt2's time; images with their channels last, and a
// traced model, where that helps.
func variants(avx512 bool, openMP string) []variant {
	const skylakeX = "OPENBLAS_CORETYPE=SKYLAKEX"
	tuned := []string{
		"MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=8589934592", "MALLOC_TOP_PAD_=268435456",
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
	}
	if openMP != "" {
		tuned = append(tuned, "LD_LIBRARY_PATH="+openMP)
	}
	flags := map[string][]string{"cnn": {"--channels-last", "--jit"}}
	with := func(more ...string) []string { return append(tuned[:len(tuned):len(tuned)], more...) }
	if !avx512 {
		return []variant{
			{family: torchName, name: "as installed"},
			{family: tunedName, env: tuned, flags: flags},
		}
	}
	return []variant{
		{family: torchName, name: "as installed"},
		{family: torchName, name: "SkylakeX products", env: []string{skylakeX}},
		{family: tunedName, name: "SkylakeX products", env: with(skylakeX), flags: flags},
		{family: tunedName, name: "SkylakeX products, AVX-512", env: with(skylakeX, "ATEN_CPU_CAPABILITY=avx512"), flags: flags},
	}
}

// openMP is the folder of the OpenBLAS that uses PyTorch's threads; empty if it
// is not installed.
func openMP(log io.Writer) string {
	libs, _ := filepath.Glob("/usr/lib/*/openblas-openmp/libopenblas.so.0") // the pattern is well formed
	if len(libs) == 0 {
		fmt.Fprintln(log, "PyTorch could be faster with Debian's libopenblas0-openmp: apt-get install libopenblas0-openmp")
		return ""
	}
	return filepath.Dir(libs[0])
}

// findPython is a Python that has PyTorch: the given one, or one of the usual
// ones.
func findPython(ctx context.Context, given string) (string, error) {
	candidates := []string{"python3", "/usr/bin/python3"}
	if given != "" {
		candidates = []string{given}
	}
	for _, p := range candidates {
		if exec.CommandContext(ctx, p, "-c", "import torch").Run() == nil {
			return p, nil
		}
	}
	return "", errors.Join(ctx.Err(), fmt.Errorf("%s cannot import torch: on Debian, apt-get install python3-torch, or name another Python by -python",
		strings.Join(candidates, " and ")))
}

// hasAVX512 tells whether the CPU can run code for Skylake-X.
func hasAVX512() bool {
	text, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && strings.Contains(string(text), " avx512vl")
}
