package command

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A process that draws a plan gets no keys of a config, and what it says is bounded and without its folder.
func TestDrawApart(t *testing.T) {
	got := drawEnvironment([]string{"PATH=/bin", "BERTH_TRAIN_BATCH=1", "BERTH_CPU=avx2", "GOMEMLIMIT=1", "BERTH_DEBUG=3"})
	if want := []string{"PATH=/bin", "BERTH_CPU=avx2", "GOMEMLIMIT=1073741824"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	failed := errors.New("exit status 1")
	if got := drawFailure("trainer: /tmp/x/config.yaml:2: no\xff\n", "/tmp/x", failed); got != "config.yaml:2: no?" {
		t.Error(got)
	}
	if got := drawFailure(strings.Repeat("é", 5000), "/tmp/x", failed); len(got) > 700 {
		t.Errorf("%d bytes", len(got))
	}
	if got := drawFailure("", "/tmp/x", failed); got != failed.Error() {
		t.Error(got)
	}
	var b bounded
	for range 3 {
		if n, err := b.Write(make([]byte, mostPlan/2+1)); n != mostPlan/2+1 || err != nil || b.Len() > mostPlan {
			t.Errorf("%d, %v, %d are kept", n, err, b.Len())
		}
	}
}
