package product

import (
	"os"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/internal/testall"
)

// rig makes this package's kernels.
var rig = kernelstest.Rig{On: work.TargetOf(isa.Best()), New: work.New(Kernels), PackCache: MatMulPackCache}

// TestMain bounds the cases of property tests.
func TestMain(m *testing.M) {
	testall.Checks(15, 100)
	os.Exit(m.Run())
}
