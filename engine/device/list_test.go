package device_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

func TestParseList(t *testing.T) {
	for text, want := range map[string][]device.Counted{
		"cpu":          {{Kind: "cpu", Count: 1}},
		"cpu:2":        {{Kind: "cpu", Count: 2}},
		"cpu:2,null:1": {{Kind: "cpu", Count: 2}, {Kind: "null", Count: 1}},
	} {
		if got, err := device.ParseList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"cpu:2,cpu":        "cpu:2,cpu names cpu more than once: write cpu:3",
		"cpu:1,null,cpu:4": "write cpu:5",
		"cpu:10000":        `"cpu:10000": expected at most 9999 devices`,
		"cpu:two":          `"cpu:two": expected a kind and a number, such as cpu:2`,
	} {
		if _, err := device.ParseList(text); !errors.Is(err, device.ErrList) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
