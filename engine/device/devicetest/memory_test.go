package devicetest

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

func TestSpecMistakes(t *testing.T) {
	good := device.Spec{MemoryBytes: 64, Threads: 1, FlopsPerSecond: 1, LinkBytesPerS: 1, Description: "a card"}
	if got := specMistakes(good, 64); len(got) > 0 {
		t.Error(got)
	}
	good.Description = ""
	if got := specMistakes(good, 64); len(got) != 1 || !strings.HasPrefix(got[0], "Description is empty: give ") {
		t.Error(got)
	}
}
