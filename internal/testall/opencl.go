package testall

import (
	"os"
	"testing"
)

// NoOpenCL ends a test that needs an OpenCL driver, or a program that checks kernels,
// and has none, because of err. It skips the test, or fails it where the environment
// has TEST_OPENCL=required, as in .ci/run.
func NoOpenCL(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("TEST_OPENCL") == "required" {
		t.Fatalf("%v: .ci/setup installs what the tests need", err)
	}
	t.Skip(err)
}
