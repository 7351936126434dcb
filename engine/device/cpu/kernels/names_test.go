package kernels_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/ops"
)

// The CPU has a kernel for every op and its element types.
func TestNames(t *testing.T) {
	var want []string
	for _, kind := range ops.Kinds() {
		want = append(want, ops.KernelNames(kind)...)
	}
	slices.Sort(want)
	if got := kernels.Names(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
