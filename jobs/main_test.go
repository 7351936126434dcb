package jobs

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// DaemonIn is the environment variable that makes the test binary a daemon, whose queue is in that
// folder.
const DaemonIn = "JOBS_DAEMON_IN"

// BeDaemon is the daemon's process. The tests that may use jobs/socket set it: that package imports
// this one.
var BeDaemon func(dir string) error

// What tests outside the package use, too.
var (
	Text, Alone, Hash  = text, alone, hash
	Untrue             = untrue
	Suspensions        = suspensions
	PipelineIn, ByHand = pipelineIn, byHand
	RetryAfter         = &retryAfter
)

// MadeIn is what a pipeline of PipelineIn has made in a folder.
func MadeIn(t testing.TB, dir string, views []View) string { return madeIn(t, dir, folders(t, views)) }

func TestMain(m *testing.M) {
	if dir := os.Getenv(DaemonIn); dir != "" {
		if err := BeDaemon(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testall.Checks(3, 25) // each starts processes
	goleak.VerifyTestMain(memdir.Main(m))
}

// Break replaces the daemon's devices by the same ones with faults.
func (d *Daemon) Break(c configs.Devices, faults []fault.Fault) error {
	if err := d.owned.Close(); err != nil {
		return err
	}
	owned, err := berth.OpenDevices(c, berth.DevicesOptions{Faults: faults})
	if err != nil {
		return err
	}
	d.owned = owned
	return nil
}
