package configs

import (
	"errors"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "512MiB": 512 << 20, "2GB": 2e9, "1.5KiB": 1536, "7 B": 7, "9007199254740993": 9007199254740993, "65536.0": 65536, "0.0MiB": -1,
	} {
		got, ok := parseSize(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s is %d bytes, want %d", text, got, want)
		}
		if v, err := ParseSize(text); want >= 0 && (v != want || err != nil) || want < 0 && err == nil {
			t.Errorf("ParseSize(%q) is %d, %v", text, v, err)
		}
		if unit := strings.TrimLeft(formatSize(got), "0123456789"); want > 0 && unit == "" {
			t.Errorf("%s is written as %s, without a unit", text, formatSize(got))
		}
		if back, ok := parseSize(formatSize(got)); want >= 0 && (!ok || back != got) {
			t.Errorf("%s comes back from %s as %d bytes", text, formatSize(got), back)
		}
	}
	for _, text := range []string{"-1", "1.5.2", "3 parsecs", "99999999TiB", "1e9", "[1]", "0.5", "1.5", "0.5B", "0.0001KiB"} {
		if bytes, ok := parseSize(text); ok {
			t.Errorf("%s is taken for %d bytes", text, bytes)
		}
	}
}

// TestFractionHint: only a fraction without a unit lacks one.
func TestFractionHint(t *testing.T) {
	for text, want := range map[string]bool{
		"0.5": true, "1.5": true, "nan": false, ".nan": false, "inf": false, "-0.5": false, "1": false, "0.5B": false, "x": false, "": false,
	} {
		if got := fractionHint(text) != ""; got != want {
			t.Errorf("%q: advises a unit: %v, want %v", text, got, want)
		}
	}
}

// TestMemory: the limit of a device is 0, or large enough to be meant, or a
// percentage.
func TestMemory(t *testing.T) {
	for text, want := range map[string]Memory{
		"0": {}, "65536": {Bytes: 64 << 10}, "512MiB": {Bytes: 512 << 20}, "2GB": {Bytes: 2e9}, "0.5GiB": {Bytes: 512 << 20},
		"9007199254740993": {Bytes: 9007199254740993}, "50%": {Percent: 50}, "100%": {Percent: 100}, "0.125%": {Percent: 0.125}, "150%": {Percent: 150},
	} {
		c := parse(t, small, Overlay{Set: []string{"devices.memory=" + text}})
		if c.Devices.Memory != want {
			t.Errorf("%s is %+v, want %+v", text, c.Devices.Memory, want)
		}
		roundTrip(t, c)
		if m, err := ParseMemory(text); err != nil || m != want {
			t.Errorf("%s is parsed as %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"-1", "1.5.2", "3 parsecs", "99999999TiB", "1e9", "[1]", "0.5", "1", "7 B", "512", "1.5KiB", "65535", "0%", "-5%", "nan%", "1e1%", "%", "1001%", "50 %", "50%%", "0x10%"} {
		c, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{"devices.memory=" + text}})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %+v", text, err, c)
		}
	}
}
