package train_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/internal/busy"
	"github.com/berth-ml/berth/internal/memdir"
)

// TestMain spends less time on garbage: tests open many runs, all small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	busy.Assume = func() bool { return false } // times are kept on a busy machine, too
	goleak.VerifyTestMain(memdir.Main(m))
}
