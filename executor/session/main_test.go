package session_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// TestMain spends less time on garbage: tests open many runs, all small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	testall.Checks(10, 300)
	goleak.VerifyTestMain(memdir.Main(m))
}
