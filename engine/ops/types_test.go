package ops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
)

func TestKernelNames(t *testing.T) {
	for _, kind := range ops.Kinds() {
		names := ops.KernelNames(kind)
		if len(names) == 0 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			t.Errorf("%s has the kernels %v", kind, names)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, kind+"(") {
				t.Errorf("%s has the kernel %s", kind, name)
			}
		}
	}
	if names := ops.KernelNames("no op"); names != nil {
		t.Errorf("no op has the kernels %v", names)
	}
}
