// Package testall says how much work tests do: none of the long ones with -short, by
// default a share of those that take longest, and all of it where the environment has
// TEST_ALL=1, as in .ci/run. It lets tests without an OpenCL driver skip, unless TEST_OPENCL=required.
package testall

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Long leaves a test out of `go test -short`: scripts and kills of whole programs, waits
// for the end of a time, and other tests that take more than half a second of CPU.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short")
	}
}

// Wanted reports whether tests do all of their work.
func Wanted() bool { return os.Getenv("TEST_ALL") != "" }

// Or is how often a test repeats something: all where all work is wanted, otherwise
// some.
func Or(some, all int) int {
	if Wanted() {
		return all
	}
	return some
}

// Most is all, or the share that is enough under the race detector.
func Most(all, share int) int {
	if Race {
		return share
	}
	return all
}

// Checks sets how many cases a property test of a package tries, for its TestMain.
// The flag -rapid.checks still overrides it.
func Checks(some, all int) {
	if err := flag.Set("rapid.checks", strconv.Itoa(Or(some, all))); err != nil {
		panic(err)
	}
}
