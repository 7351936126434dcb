package busy

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// threads are the times for which the process's threads have run, and have waited for a core; 0 where the kernel does not count.
func threads() (ran, waited time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var r, w time.Duration
		if _, err := fmt.Sscan(string(text), &r, &w); err == nil {
			ran, waited = ran+r, waited+w
		}
	}
	return ran, waited
}
