package host

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// Under a limit on what the process may map, the memory that is available and
// the default budget are within it, and devices of that budget leave room.
func TestAddressesAreLimited(t *testing.T) {
	const variable, limit = "BERTH_TEST_LIMITED", 4 << 30
	if os.Getenv(variable) != "" {
		checkLimited(t, limit)
		return
	}
	if a := leastAddresses(); a != unlimited {
		t.Skipf("the limit %s leaves the tests %d bytes", a.limit, a.bytes)
	}
	for _, option := range []string{"-v", "-d"} {
		c := exec.Command("sh", "-c", "ulimit "+option+" 4194304 && exec \"$0\" -test.run='^TestAddressesAreLimited$'", os.Args[0])
		c.Env = append(os.Environ(), variable+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("ulimit %s: %v\n%s", option, err, out)
		}
	}
}

func checkLimited(t *testing.T, limit int64) {
	t.Helper()
	free, err := Available()
	if err != nil || free <= 0 || free >= limit {
		t.Errorf("%d bytes are available within %d, %v", free, limit, err)
	}
	_, err = newArena(limit)
	if !errors.Is(err, device.ErrBudget) || !strings.Contains(err.Error(), "it is 4.0 GiB") || !strings.Contains(err.Error(), "but ulimit -") {
		t.Errorf("a budget of all addresses: %v", err)
	}
	for _, count := range []int{1, 2, 3, 8} {
		before := leastAddresses().bytes
		arenas := openDefault(t, count)
		if left := leastAddresses().bytes; left < before/8 {
			t.Errorf("%d devices leave %d of %d bytes", count, left, before)
		}
		for _, a := range arenas {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// openDefault opens count arenas of the default budget.
func openDefault(t *testing.T, count int) (arenas []*arena) {
	t.Helper()
	budget, err := DefaultBudget(count)
	if err != nil || budget < 1<<20 {
		t.Fatalf("a budget of %d bytes for each of %d devices, %v", budget, count, err)
	}
	for range count {
		a, err := newArena(budget)
		if err != nil {
			t.Fatalf("%d devices: %v", count, err)
		}
		arenas = append(arenas, a)
	}
	return arenas
}

// The strictest limit counts, and a system that promises no more than it has is
// a limit too.
func TestPromisesLeft(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := write("meminfo", "CommitLimit: 100 kB\nCommitted_AS:   36 kB\n")
	for mode, want := range map[string]int64{"0\n": math.MaxInt64, "1\n": math.MaxInt64, "2\n": 64 << 10} {
		if n := promisesLeft(write("mode", mode), meminfo); n != want {
			t.Errorf("mode %q leaves %d bytes, expected %d", mode, n, want)
		}
	}
	if n := promisesLeft(write("mode", "2"), write("over", "CommitLimit: 100 kB\nCommitted_AS: 200 kB\n")); n != 0 {
		t.Errorf("%d bytes are left of more promises than the limit", n)
	}
}
