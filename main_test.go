package berth_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/internal/busy"
	"github.com/berth-ml/berth/internal/memdir"
)

// TestMain spends less time on garbage: tests open many runs, all small. Measured times are kept on a busy machine, too.
func TestMain(m *testing.M) {
	busy.Assume = func() bool { return false }
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(memdir.Main(m))
}
