package command

import "testing"

// documented is report.json as users were promised it: nothing else may be in
// it, and nothing of it may go away.
type documented struct {
	Steps      int       `json:"steps"`
	Epochs     int       `json:"epochs"`
	Finished   bool      `json:"finished"`
	Parameters int64     `json:"parameters"`
	Losses     []float64 `json:"losses"`
	Final      struct {
		TrainLoss   *float64 `json:"train_loss"`
		ValLoss     *float64 `json:"val_loss"`
		ValAccuracy *float64 `json:"val_accuracy"`

		Metrics map[string]*float64 `json:"metrics"`
	} `json:"final"`
	Best *struct {
		Checkpoint uint64             `json:"checkpoint"`
		Step       int                `json:"step"`
		Metric     string             `json:"metric"`
		Metrics    map[string]float64 `json:"metrics"`
	} `json:"best"`
	Test *struct {
		Checkpoint uint64              `json:"checkpoint"`
		Step       int                 `json:"step"`
		Samples    int                 `json:"samples"`
		Loss       float64             `json:"loss"`
		Accuracy   *float64            `json:"accuracy"`
		RMSE       *float64            `json:"rmse"`
		Metrics    map[string]*float64 `json:"metrics"`
	} `json:"test"`
	Throughput struct {
		SamplesPerS float64 `json:"samples_per_s"`
		TokensPerS  float64 `json:"tokens_per_s"`
		StepMSP50   float64 `json:"step_ms_p50"`
		StepMSP95   float64 `json:"step_ms_p95"`
	} `json:"throughput"`
	Ledger struct {
		CopyInBytes       int64            `json:"copy_in_bytes"`
		CopyInWeightBytes int64            `json:"copy_in_weight_bytes"`
		PeerBytes         int64            `json:"peer_bytes"`
		PullBackBytes     int64            `json:"pull_back_bytes"`
		SpillBytes        int64            `json:"spill_bytes"`
		ByReason          map[string]int64 `json:"by_reason"`
		SteadyState       struct {
			CopyInBytesPerStep   int64 `json:"copy_in_bytes_per_step"`
			BatchBytesPerStep    int64 `json:"batch_bytes_per_step"`
			PullBackBytesPerStep int64 `json:"pull_back_bytes_per_step"`
			SpillBytesPerStep    int64 `json:"spill_bytes_per_step"`
		} `json:"steady_state"`
	} `json:"ledger"`
	Copies struct {
		Hidden  float64 `json:"hidden_ms_per_step"`
		Exposed float64 `json:"exposed_ms_per_step"`
		Failed  int     `json:"failed"`
	} `json:"copies"`
	Balance *struct {
		Planned []int `json:"planned"`
		Shares  []int `json:"shares"`
		Changes int   `json:"changes"`
		Newest  []struct {
			Step   int       `json:"step"`
			Shares []int     `json:"shares"`
			MS     []float64 `json:"ms_per_microbatch"`
			Full   []int     `json:"full"`
		} `json:"newest"`
		Blocks []struct {
			Step   int `json:"step"`
			Stages []struct {
				Device string   `json:"device"`
				Blocks []string `json:"blocks"`
			} `json:"stages"`
			Back      bool      `json:"back"`
			Slowness  []float64 `json:"slowness"`
			BeforeMS  float64   `json:"before_ms"`
			AfterMS   float64   `json:"after_ms"`
			Variables int       `json:"variables"`
			Bytes     int64     `json:"moved_bytes"`
			Seconds   float64   `json:"seconds"`
		} `json:"blocks"`
	} `json:"balance"`
	Devices []struct {
		ID          string           `json:"id"`
		Threads     int              `json:"threads"`
		BudgetBytes int64            `json:"budget_bytes"`
		Shared      int64            `json:"shared_bytes"`
		Planned     int64            `json:"planned_peak_bytes"`
		Floor       int64            `json:"floor_bytes"`
		Evict       string           `json:"evict"`
		PeakBytes   int64            `json:"peak_bytes"`
		ByUsage     map[string]int64 `json:"by_usage"`
	} `json:"devices"`
	HostMemory *struct {
		Bound    int64 `json:"bound_bytes"`
		Peak     int64 `json:"peak_bytes"`
		File     int64 `json:"file_bytes"`
		FilePeak int64 `json:"file_peak_bytes"`
	} `json:"host_memory"`
	Ranks []struct {
		Rank    int     `json:"rank"`
		Machine string  `json:"machine"`
		Working float64 `json:"working_s"`
		Waiting float64 `json:"waiting_s"`
		For     []struct {
			Rank    int     `json:"rank"`
			Seconds float64 `json:"seconds"`
		} `json:"waited_for"`
		Sent int64 `json:"sent_bytes"`
		Peak int64 `json:"peak_bytes"`
	} `json:"ranks"`
	DeviceLosses []struct {
		Device  string `json:"device"`
		Cause   string `json:"cause"`
		Step    int    `json:"step"`
		Resumed int    `json:"resumed"`
		Again   int    `json:"steps_again"`
		Off     int64  `json:"written_off_bytes"`
	} `json:"device_losses"`
	MetricsLost *struct {
		Lines     int `json:"lines"`
		FirstStep int `json:"first_step"`
		LastStep  int `json:"last_step"`
	} `json:"metrics_lost"`
	Executables struct {
		Memory   int     `json:"memory"`
		Disk     int     `json:"disk"`
		Compiled int     `json:"compiled"`
		Seconds  float64 `json:"seconds"`

		CompiledFromStep int      `json:"compiled_from_step"`
		Refused          []string `json:"refused"`
	} `json:"executables"`
	Stages       int    `json:"stages"`
	Replicas     int    `json:"replicas"`
	Reduction    string `json:"reduction"`
	Microbatches int    `json:"microbatches"`
	Schedule     string `json:"schedule"`
	Bubble       struct {
		Simulated float64 `json:"simulated"`
		Measured  float64 `json:"measured"`
	} `json:"bubble"`
	Checkpoints struct {
		Count       int     `json:"count"`
		Staging     string  `json:"staging"`
		Bytes       int64   `json:"bytes"`
		SaveMS      float64 `json:"save_ms"`
		MBPerS      float64 `json:"mb_per_s"`
		CopyMS      float64 `json:"copy_ms"`
		StallMS     float64 `json:"stall_ms"`
		StepsBeside int     `json:"steps_beside"`
		Slowdown    float64 `json:"slowdown"`
	} `json:"checkpoints"`
	WeightsSHA256 string `json:"weights_sha256"`

	// With --assert-resident only: what moved.
	Allowed []string `json:"allowed"`
}

func TestShortened(t *testing.T) {
	for in, want := range map[string]string{
		"copy-in of weight: 3 transfers, 12 B, first a":                              "copy-in of weight: 3 transfers, 12 B, first a",
		"spill (spill) of weight: 7 transfers, 8 B, as planned: a, b, c, d, e, f":    "spill (spill) of weight: 7 transfers, 8 B, as planned: a, b, c, d, e, f",
		"spill (spill) of weight: 7 transfers, 8 B, as planned: a, b, c, d, e, f, g": "spill (spill) of weight: 7 transfers, 8 B, as planned: a, b, c, d, e and 2 more",
	} {
		if got := shortened(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
