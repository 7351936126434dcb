package gen

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// The kernels are CUDA C too: clang compiles them to PTX, without NVIDIA's toolkit. Each
// kernel is in the result.
func TestKernelsAreCUDA(t *testing.T) {
	clang, err := exec.LookPath("clang")
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	calls := kernelsOf(drawnOfAll(testall.Or(3, seeds), math.MaxInt64))
	var text strings.Builder
	text.WriteString(CUDA)
	for _, c := range calls {
		text.WriteString(c.Source)
	}
	header, err := filepath.Abs("testdata/cuda.h")
	if err != nil {
		t.Fatal(err)
	}
	ptx := compileCUDA(t, clang, header, text.String())
	for _, c := range calls {
		if !strings.Contains(ptx, ".entry "+c.Name+"(") {
			t.Errorf("%s is not in the PTX", c.Name)
		}
	}
	t.Log(len(calls), "kernels,", len(ptx), "bytes of PTX")
}

func compileCUDA(t *testing.T, clang, header, text string) (ptx string) {
	t.Helper()
	cmd := exec.Command(clang, "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib",
		"-include", header, "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-variable", "-ffp-contract=off", "-O0", "-S", "-o", "-", "-")
	cmd.Stdin = strings.NewReader(text)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%w:\n%s", err, errs.String()))
	}
	return string(out)
}
