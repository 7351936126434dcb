package devicetest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
)

// A check is a part of the contract of package device.
type check struct {
	name string
	test func(t *testing.T, open Opener)
}

var checks = []check{
	{"Spec", testSpec},
	{"Memory", testMemory},
	{"OutOfMemory", testOutOfMemory},
	{"Pieces", testPieces},
	{"Leaks", testLeaks},
	{"Closed", testClosed},
	{"Copies", testCopies},
	{"CopyMistakes", testCopyMistakes},
	{"Peers", testPeers},
	{"Order", testOrder},
	{"CrossStream", testCrossStream},
	{"Failure", testFailure},
	{"KernelFailure", testKernelFailure},
	{"Backlog", testBacklog},
	{"WaitEnds", testWaitEnds},
	{"Cancel", testCancel},
	{"Sync", testSync},
	{"Runner", testRunner},
	{"FreeInFlight", testFreeInFlight},
	{"FreeUnused", testFreeUnused},
	{"FailedUse", testFailedUse},
	{"SkippedInOrder", testSkippedInOrder},
	{"Repeat", testRepeat},
	{"RepeatIn", testRepeatIn},
	{"WaitForEnd", testWaitForEnd},
	{"Compact", testCompact},
	{"Passed", testPassed},
	{"Launch", testLaunch},
	{"LaunchMistakes", testLaunchMistakes},
	{"CompileCache", testCompileCache},
	{"Keep", testKeep},
	{"Estimate", testEstimate},
	{"CompileMistakes", testCompileMistakes},
	{"Donation", testDonation},
	{"DonationOrder", testDonationOrder},
	{"DelayRead", testDelayRead},
	{"DelayWrite", testDelayWrite},
	{"EarlyOutputs", testEarlyOutputs},
	{"Update", testUpdate},
	{"Scratch", testScratch},
	{"Views", testViews},
	{"PassThrough", testPassThrough},
	{"Empty", testEmpty},
	{"CheckFinite", testCheckFinite},
	{"Hammer", testHammer},
	{"TwoStreams", testTwoStreams},
	{"SteadyState", testSteadyState},
	{"RandomGraphs", testRandomGraphs},
	{"Guards", testGuards},
	{"Branches", testBranches},
	{"OpByOp", testOpByOp},
	{"Parts", testParts},
}

// Run checks that a kind of device keeps the contract of package device.
func Run(t *testing.T, open func(t *testing.T, o device.OpenOptions) []device.Device) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			c.test(t, open)
			goleak.VerifyNone(t, before)
		})
	}
}
