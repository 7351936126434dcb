package configs

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// size is a number of bytes in an int64: 0, or at least least.
type size struct{ least int64 }

var (
	sizePattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)
	// sizeUnits are in the order in which format tries them.
	sizeUnits = []struct {
		name  string
		bytes int64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1}, {"", 1},
	}
)

func (s size) expect() string {
	if s.least == 0 {
		return "a number of bytes such as 512MiB or 2GB"
	}
	return "a number of bytes: 0, or at least " + s.format(s.least) + ", such as 512MiB or 2GB"
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

func (s size) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(s.format(*src.(*int64)))
}

// format writes a number of bytes with the largest unit that it is a multiple
// of.
func (size) format(v int64) string {
	for _, u := range sizeUnits {
		if v != 0 && u.bytes > 1 && v%u.bytes == 0 {
			return strconv.FormatInt(v/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(v, 10)
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

func (staging) encode(src any, keep func(*key) bool) *yaml.Node {
	switch *src.(*int64) {
	case 0:
		return plain("auto")
	case StageWhole:
		return plain("whole")
	}
	return size{}.encode(src, keep)
}
