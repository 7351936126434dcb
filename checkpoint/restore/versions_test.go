package restore

import (
	"testing"

	"github.com/berth-ml/berth/checkpoint"
)

func TestOtherOps(t *testing.T) {
	for print, want := range map[string]string{
		"":            "",
		"swish 2":     "this run uses the op swish version 2, which this program does not have: use one that registers it",
		"swish 2 and": "this run uses the op swish version 2, which this program does not have: use one that registers it",
	} {
		if got := otherOps(&checkpoint.Manifest{Fingerprints: map[string]string{opsPrint: print}}); got != want {
			t.Errorf("%q: got %q, want %q", print, got, want)
		}
	}
}
