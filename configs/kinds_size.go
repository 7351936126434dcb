package configs

import (
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// size is a number of bytes, an int64, plain or with a unit.
type size struct{}

var (
	sizePattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
	// sizeUnits holds the units from the largest exact one down.
	sizeUnits = []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}, {"", 1},
	}
)

func (size) expect() string { return "a number of bytes such as 512MiB or 2GB" }

func (s size) decode(d *decoder, n *yaml.Node, path string, dst any) {
	m := sizePattern.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil {
		d.mismatch(n, path, s.expect())
		return
	}
	v, err := strconv.ParseFloat(m[1], 64)
	for _, u := range sizeUnits {
		if u.name != m[2] {
			continue
		}
		if err != nil || v*float64(u.bytes) > math.MaxInt64/2 {
			break
		}
		*dst.(*int64) = int64(math.Round(v * float64(u.bytes)))
		if whole, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			*dst.(*int64) = whole * u.bytes // exact beyond 2^53
		}
		return
	}
	d.mismatch(n, path, s.expect())
}

func (size) encode(src any, _ func(*key) bool) *yaml.Node {
	v := *src.(*int64)
	for _, u := range sizeUnits {
		if v != 0 && u.bytes > 1 && v%u.bytes == 0 {
			return plain(strconv.FormatInt(v/u.bytes, 10) + u.name)
		}
	}
	return plain(strconv.FormatInt(v, 10))
}

// staging is an int64: auto, whole, or a size.
type staging struct{}

// leastStaging is the smallest area that is worth streaming through.
const leastStaging = 1 << 20

func (staging) expect() string { return "auto, whole, or at least 1MiB, such as 256MiB" }

func (s staging) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*int64)
	switch n.Value {
	case "auto":
		*out = 0
	case "whole":
		*out = StageWhole
	default:
		if !sizePattern.MatchString(n.Value) {
			d.mismatch(n, path, s.expect())
			return
		}
		if (size{}).decode(d, n, path, dst); *out < leastStaging {
			d.mismatch(n, path, s.expect())
		}
	}
}

func (staging) encode(src any, keep func(*key) bool) *yaml.Node {
	switch *src.(*int64) {
	case 0:
		return plain("auto")
	case StageWhole:
		return plain("whole")
	}
	return size{}.encode(src, keep)
}
