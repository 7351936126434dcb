package host

import (
	"math"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// A limit on address space bounds what the heap can take.
func TestAddressSpace(t *testing.T) {
	const variable = "BERTH_TEST_LIMITED"
	if os.Getenv(variable) != "" {
		free, err := ForHeap()
		if err != nil || free <= 0 || free >= 8<<30 {
			t.Errorf("%d bytes of a limit of 8 GiB, %v", free, err)
		}
		return
	}
	if n := addressSpace(); n != math.MaxInt64 {
		t.Skipf("the tests' own limit leaves %d bytes", n)
	}
	c := exec.Command("sh", "-c", "ulimit -v "+strconv.Itoa(8<<20)+" && exec \"$0\" -test.run=TestAddressSpace", os.Args[0])
	c.Env = append(os.Environ(), variable+"=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
