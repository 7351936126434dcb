package command

import (
	"fmt"
	"runtime"

	"github.com/berth-ml/berth/internal/units"
)

const (
	// leastAddresses is the address space in bytes that the program takes before it does
	// anything: the Go runtime reserves 1.1 GiB for its tables, and maps program and heap.
	leastAddresses = 13 << 30 / 10
	// threadAddresses is what the threads of a core take in the C library: a stack of 8 MiB and
	// memory of 64 MiB each. Beyond two cores, Go starts few more threads before they are busy.
	threadAddresses = 256 << 20
)

// tooFewAddresses says that a limit on address space is too low to start; "" if it is not.
// Below it, the Go runtime ends the process with a dump of its stacks.
func tooFewAddresses(limit int64, cores int) string {
	need := int64(leastAddresses)
	if usesC {
		need += threadAddresses * int64(min(cores, 2))
	}
	if limit >= need {
		return ""
	}
	return fmt.Sprintf("the address space is limited to %s (ulimit -v), and this program needs at least %s to start: raise the limit, or limit memory with a control group in place of it",
		units.Bytes(limit), units.Bytes(need))
}

// checkAddresses is tooFewAddresses of this process.
func checkAddresses() string { return tooFewAddresses(addressLimit(), runtime.GOMAXPROCS(0)) }
