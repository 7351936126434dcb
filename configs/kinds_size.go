package configs

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// memory is a Memory: a number of bytes, 0 or at least LeastMemory, or a
// percentage.
type memory struct{}

func (memory) expect() string {
	return "a number of bytes: 0, or at least " + formatSize(LeastMemory) + ", such as 512MiB or 2GB, or a percentage such as 50%"
}

func (m memory) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, ok := parseMemory(n.Value)
	if n.Kind != yaml.ScalarNode || !ok {
		d.mismatch(n, path, m.expect()+fractionHint(n.Value))
		return
	}
	*dst.(*Memory) = v
}

func (memory) encode(src any, _ func(*key) bool) *yaml.Node { return plain(src.(*Memory).String()) }

// ParseMemory reads a limit on a device's memory, such as 64MiB or 50%. Its
// error says what is expected.
func ParseMemory(text string) (Memory, error) {
	m, ok := parseMemory(text)
	if !ok {
		return m, fmt.Errorf("got %q, expected %s%s", text, memory{}.expect(), fractionHint(text))
	}
	return m, nil
}

// mostPercent is the largest percentage of a plan's memory that is meant.
const mostPercent = 1000

func parseMemory(text string) (m Memory, ok bool) {
	if percent, found := strings.CutSuffix(text, "%"); found {
		v, err := strconv.ParseFloat(percent, 64)
		m.Percent = v
		return m, err == nil && v > 0 && v <= mostPercent && percentPattern.MatchString(percent)
	}
	m.Bytes, ok = parseSize(text)
	return m, ok && (m.Bytes == 0 || m.Bytes >= LeastMemory)
}

// unitOfMemory is the size in bytes that devices round every block up to.
const unitOfMemory = 64

// Of is the limit in bytes, where the plan takes peak bytes without a limit; 0
// is none.
func (m Memory) Of(peak int64) int64 {
	if m.Percent == 0 {
		return m.Bytes
	}
	bytes := int64(math.Ceil(float64(peak) * m.Percent / 100))
	return max(LeastMemory, (bytes+unitOfMemory-1)/unitOfMemory*unitOfMemory)
}

// String writes the limit as ParseMemory reads it.
func (m Memory) String() string {
	if m.Percent > 0 {
		return strconv.FormatFloat(m.Percent, 'f', -1, 64) + "%"
	}
	return formatSize(m.Bytes)
}

var (
	sizePattern    = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
	percentPattern = regexp.MustCompile(`^[0-9]+(?:\.[0-9]+)?$`)
	// sizeUnits are in the order in which formatSize tries them.
	sizeUnits = []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}, {"", 1},
	}
)

// size is a number of bytes in an int64: 0, or at least least.
type size struct{ least int64 }

func (s size) expect() string {
	if s.least == 0 {
		return "a number of bytes such as 512MiB or 2GB"
	}
	return "a number of bytes: 0, or at least " + formatSize(s.least) + ", such as 512MiB or 2GB"
}

func (s size) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, ok := parseSize(n.Value)
	if n.Kind != yaml.ScalarNode || !ok || v != 0 && v < s.least {
		d.mismatch(n, path, s.expect()+fractionHint(n.Value))
		return
	}
	*dst.(*int64) = v
}

// ParseSize reads a number of bytes, such as 64MiB. Its error says what is
// expected.
func ParseSize(text string) (int64, error) {
	v, ok := parseSize(text)
	if !ok {
		return 0, fmt.Errorf("got %q, expected %s%s", text, size{}.expect(), fractionHint(text))
	}
	return v, nil
}

// parseSize reads a number of bytes, with or without a unit. It refuses fractions
// of a byte and numbers that round to no byte, except for 0 itself.
func parseSize(text string) (bytes int64, ok bool) {
	m := sizePattern.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	for _, u := range sizeUnits {
		if u.name != m[2] {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil || v*float64(u.bytes) > math.MaxInt64/2 {
			return 0, false
		}
		if whole, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return whole * u.bytes, true // exact beyond 2^53
		}
		bytes = int64(math.Round(v * float64(u.bytes)))
		return bytes, bytes > 0 && (u.bytes > 1 || v == math.Trunc(v))
	}
	return 0, false
}

// fractionHint is the advice for a fraction without a unit; "" for other texts.
func fractionHint(text string) string {
	m := sizePattern.FindStringSubmatch(text)
	if m == nil || m[2] != "" {
		return ""
	}
	if v, err := strconv.ParseFloat(m[1], 64); err != nil || v == math.Trunc(v) {
		return ""
	}
	return "; a fraction needs a unit, such as 0.5GiB"
}

func (size) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(formatSize(*src.(*int64)))
}

// formatSize writes a number of bytes with the largest unit that it is a
// multiple of.
func formatSize(v int64) string {
	for _, u := range sizeUnits {
		if v != 0 && v%u.bytes == 0 {
			return strconv.FormatInt(v/u.bytes, 10) + u.name
		}
	}
	return "0"
}

// staging is a number of bytes in an int64: auto (0), whole (StageWhole), or a
// size.
type staging struct{}

// leastStaging is the smallest area in bytes that a save can stream through.
const leastStaging = 1 << 20

func (staging) expect() string { return "auto, whole, or at least 1MiB, such as 256MiB" }

func (s staging) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*int64)
	switch v, ok := parseSize(n.Value); {
	case n.Value == "auto":
		*out = 0
	case n.Value == "whole":
		*out = StageWhole
	case n.Kind == yaml.ScalarNode && ok && v >= leastStaging:
		*out = v
	default:
		d.mismatch(n, path, s.expect()+fractionHint(n.Value))
	}
}

func (staging) encode(src any, _ func(*key) bool) *yaml.Node {
	switch *src.(*int64) {
	case 0:
		return plain("auto")
	case StageWhole:
		return plain("whole")
	}
	return plain(formatSize(*src.(*int64)))
}
