package partition

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// scaled prints n in the largest unit that is at most n. Each unit is step times
// the one before.
func scaled(n int64, step float64, units ...string) string {
	x, u := float64(n), 0
	for x >= step && u < len(units)-1 {
		x /= step
		u++
	}
	if u == 0 {
		return fmt.Sprintf("%d%s", n, units[0])
	}
	return fmt.Sprintf("%.1f%s", x, units[u])
}

// exactText is a number of bytes, rounded up to whole KiB, as a config states it.
func exactText(n int64) string { return fmt.Sprintf("%dKiB", (n+1023)/1024) }

func countText(n int64) string { return scaled(n, 1000, "", " k", " M", " G", " T", " P") }

// usageText lists the usages that are not zero.
func usageText(m [device.NumUsages]int64) string {
	var s []string
	for u, b := range m {
		if b > 0 {
			s = append(s, fmt.Sprintf("%v %s", device.Usage(u), units.Bytes(b)))
		}
	}
	return strings.Join(s, ", ")
}
