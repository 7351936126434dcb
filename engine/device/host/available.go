package host

import "fmt"

// shareOfMemory is the part of the available memory that devices take when no
// budget is given; the rest is for the Go heap and pinned host buffers.
const shareOfMemory = 0.8

// DefaultBudget is the byte budget of each of count devices when none is
// asked for: a share of what the system and the process's control group have
// left.
func DefaultBudget(count int) (int64, error) {
	free, err := Available()
	if err != nil {
		return 0, fmt.Errorf("how much memory is available is not known: %w: set the device's memory budget", err)
	}
	return max(1, int64(float64(free)*shareOfMemory)/int64(max(1, count))), nil
}

// Available is how many bytes the system, and the process's control group where
// there are such, have left.
func Available() (int64, error) { return available() }
