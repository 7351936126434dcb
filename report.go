package berth

import "github.com/berth-ml/berth/executor/train"

// The outcome of a run, and its parts: see [train.Report].
type (
	// Report is the outcome of a run: report.json. Its names are stable.
	Report = train.Report
	// DeviceLoss is the loss of a device that the run went on without.
	DeviceLoss = train.DeviceLoss
	// Final are the newest boundary's metrics.
	Final = train.Final
	// Best is the best checkpoint of a run folder.
	Best = train.Best
	// Test are the loss and the metrics over the test part, at the end of the run.
	Test = train.Test
	// Throughput is over all training steps, without evaluation and checkpoints.
	Throughput = train.Throughput
	// LedgerReport counts the bytes that moved.
	LedgerReport = train.LedgerReport
	// SteadyState is the median of bytes per step, over all steps but the first.
	SteadyState = train.SteadyState
	// CopyReport is the time of copies in a step, and the number of those that failed.
	CopyReport = train.CopyReport
	// RankReport is one of several processes that trained together.
	RankReport = train.RankReport
	// RankWait is how long a rank waited for another one.
	RankWait = train.RankWait
	// DeviceReport is a device's memory.
	DeviceReport = train.DeviceReport
	// HostReport is the host memory that a bound counts.
	HostReport = train.HostReport
	// ExecutableReport is a call's executables.
	ExecutableReport = train.ExecutableReport
	// Bubble is the share of time, from 0 to 1, that devices idle in a step.
	Bubble = train.Bubble
	// SaveReport measures a call's checkpoints, on average.
	SaveReport = train.SaveReport
)
