package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pos is the position of a value. Line counts from 1. A default has neither File
// nor Line; a flag or variable has its text as File, and Line 0.
type Pos struct {
	File string
	Line int
}

// String gives "file:line", or the file alone where Line is 0.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Config describes one run. Every default is filled in, every value is in range,
// and keys that depend on each other agree. Only Devices may be a literal with zero
// fields.
type Config struct {
	Pos           Pos
	Name          string // names the run folder; the file's base name by default
	Seed          uint64
	Data          Data
	Model         Model
	Loss          string // cross_entropy, mse, bce or another name of the registry
	LossKeys      Registered
	Precision     string // float32, bf16 or int8
	Adapt         Adapt
	Train         Train
	Optimizer     Optimizer
	Schedule      Schedule
	Partition     Partition
	Devices       Devices
	Distributed   Distributed
	Checkpoint    Checkpoint
	EarlyStopping EarlyStopping

	// UnlimitedBy is the override of devices.use that replaced a list with limits of
	// memory; zero: none did, or memory is given for all devices.
	UnlimitedBy Pos
	// Notes are about keys and values of the file that are gone, and passed over.
	Notes []string

	where   map[string]Pos
	written *written // nil: the config was made by code
}

// written is what the file says of a run's length, before overrides.
type written struct {
	train    Train
	schedule Schedule
}

// Shortened is the config with the length that its file gives, where an override or code
// has another in place of it and the warm-up is as in the file; ok is false otherwise.
func (c *Config) Shortened() (as *Config, ok bool) {
	w := c.written
	if w == nil || w.schedule.Warmup != c.Schedule.Warmup {
		return nil, false
	}
	whole := *c
	whole.Train = w.train
	return &whole, w.train.Epochs != c.Train.Epochs || w.train.Steps != c.Train.Steps || w.train.Batch != c.Train.Batch
}

// Given reports whether a key was given, in the file or by an override.
func (c *Config) Given(path string) bool {
	_, given := c.where[path]
	return given
}

// Overridden reports whether a flag, --set or a variable gave a key.
func (c *Config) Overridden(path string) bool { return c.Given(path) && c.where[path].Line == 0 }

// Where gives the position of a key, by its dotted path. For a key that was not
// given, it is the position of the innermost section around it that was.
func (c *Config) Where(path string) Pos {
	for path != "" {
		if p, ok := c.where[path]; ok {
			return p
		}
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
	return c.Pos
}

// KeyAt is the key whose value begins in a line of the config's own file, by its dotted path: the outermost of several,
// and for a line without one the one before. It is "" before the first.
func (c *Config) KeyAt(line int) (path string) {
	at := 0
	for p, pos := range c.where {
		if pos.Line == 0 || pos.Line > line || pos.Line < at {
			continue
		}
		if pos.Line > at || cmp.Or(cmp.Compare(len(p), len(path)), cmp.Compare(p, path)) < 0 {
			at, path = pos.Line, p
		}
	}
	return path
}

// Data describes the training data. Fields that the source has no key for are
// zero, except Task, which is always set.
type Data struct {
	Pos         Pos
	Source      string    // digits, mnist, images, csv, text, lines, tensors, or given
	Path        string    // a file or folder, or "builtin:NAME"
	MorePaths   []string  // text, lines: further files and folders
	Split       float64   // share of samples to train on, in [0, 1]; 1 leaves none to validate with; 0 (mnist) keeps the files' own split
	Division    *Division // in place of Split, which is 0 then; nil: there is Split
	Header      string    // csv: auto, true or false
	Label       string    // csv: the column to predict, by name or by number from 0 (negative: from the end); lines: the key of the class, "": next tokens
	MoreLabels  []string  // csv: further columns to predict
	Positive    string    // csv, lines, images: the name of the positive one of two classes; "": the second
	Ignore      []string  // csv: columns that are not read, by name or number as Label
	Delimiter   string    // csv: one character
	Memory      int64     // csv: bytes of samples that are in memory at a time, and shuffled together; the rest is in a file. 0: all are in memory
	SkipRows    int       // csv: lines above the header, or above the first row, of each file of text
	Task        string    // classification or regression; csv: or multilabel
	Standardize bool      // csv: features to mean 0 and deviation 1
	Missing     []string  // csv: the words for a missing value, beside the empty field; nil: NA, N/A, null, ? and nan
	Columns     []Column  // csv: how columns are used; nil: as they are found
	// StandardizeTarget does the same to the target (csv, task regression, losses of numbers such as mse).
	StandardizeTarget bool
	Context           int       // text: tokens in a window; lines: most tokens in a sample
	Tokenizer         string    // text, lines: char, bytes, gpt2, bpe:N or the path of a tokenizer.json
	Field             string    // text, lines: of JSON lines, the key of the text; text: or of a list of messages; "": files are text
	ChatTemplate      string    // text: the path of the template for messages; "": the tokenizer's
	Buckets           []int     // lines: tokens to which samples are padded, the fewest first; the last is Context
	Truncate          bool      // lines, text of messages: samples longer than Context are cut off, not refused
	Size              []int     // images: height and width; nil: those that all images have
	Fit               string    // images: crop, pad or stretch
	Augment           []Augment // images: random changes to those that train, in this order
	Input             string    // tensors: a tensor's name in Path, or a .npy file
	Target            string    // tensors: likewise
	Prefix            string    // tensors: written before both names
	Registered                  // of a source that the program has added, but for Path
}

// Texts reports whether the answers are the tokens of a text.
func (d *Data) Texts() bool { return d.Source == "text" || d.Source == "lines" && d.Label == "" }

// tokens reports whether samples are the tokens of a text.
func (d *Data) tokens() bool { return d.Source == "text" || d.Source == "lines" }

// The names of tokenizers, and the beginning of the name of one that is learnt.
var tokenizerNames = []string{"", "char", "bytes", "gpt2"}

const tokenizerLearnt = "bpe:"

// TokenizerFile is the path that Tokenizer is; "" if it is a name.
func (d *Data) TokenizerFile() string {
	switch {
	case slices.Contains(tokenizerNames, d.Tokenizer), strings.HasPrefix(d.Tokenizer, tokenizerLearnt):
		return ""
	}
	return d.Tokenizer
}

// Model is a preset with its parameters (Preset != "") or a list of layers.
type Model struct {
	Pos        Pos
	Preset     string // mlp, cnn, gpt, llama, mistral, qwen2, resnet, vit, given, or "" for Layers
	Program    string // given: the program whose model it is; "": not known yet
	Layers     []Layer
	Hidden     []int   // mlp, cnn: outputs of the dense layers before the last
	Channels   []int   // cnn: output channels of each block of convolution, activation and 2x2 max pooling
	Kernel     int     // cnn: side of the convolutions' windows
	Depth      string  // resnet: 18, 34 or 50
	Stem       string  // resnet: imagenet or cifar
	Size       string  // vit: tiny or small, which say Width and Heads where these are 0
	Patch      int     // vit: side of the patches
	Outputs    int     // mlp, cnn, resnet, vit: outputs of the last layer; 0: from the data
	Activation string  // relu, gelu, gelu_tanh, silu, sigmoid or tanh
	Dropout    float64 // gpt, vit: probability that a number is dropped in training
	Blocks     int     // gpt, vit: number of transformer blocks; the key is "layers"
	Heads      int     // gpt, vit: attention heads
	Width      int     // gpt, vit: numbers that represent a token; resnet: channels of the first stage
	Context    int     // gpt: rows of the table of positions
	Vocab      int     // gpt: rows of the table of tokens; 0: from the data
	Tied       bool    // gpt: the head uses the table of tokens as its weight
	Llama      Llama   // llama, mistral, qwen2: what they have besides; their other keys are the fields of gpt
}

// Layer is an entry of Model.Layers. Type decides its keys; [Reference] lists them.
type Layer struct {
	Pos        Pos
	Type       string
	Name       string  // unique in the model
	Body       []Layer // the layers inside, of types that have some, such as residual
	Registered         // such as a *models.Dense
}

// Registered are the keys of a name of package registry.
type Registered struct {
	Keys    any // a pointer to the name's struct, or the struct; nil: the defaults
	Version int // of a name that the program has added; 0: a built-in one
}

// Adapt describes an adapter that is trained in place of the weights. The zero value is none.
type Adapt struct {
	Pos  Pos
	LoRA LoRA
	Base string // how frozen matrices are stored: float32 or bf16
}

// LoRA describes an adapter of low rank: see models.LoRA.
type LoRA struct {
	Pos     Pos
	Rank    int // 0: there is none
	Alpha   float64
	Targets []string // patterns of the names of layers and projections
	Dropout float64
}

// Adapts reports whether an adapter is trained, and no other weights.
func (c *Config) Adapts() bool { return c.Adapt.LoRA.Rank > 0 }

// Train describes the length of training and the size of a step.
type Train struct {
	Pos          Pos
	Epochs       int     // 0: Steps is the run's length
	Steps        int     // of the run; 0: Epochs is its length
	Boundary     int     // steps between boundaries, at which losses and metrics come out; 0: they are the epochs' ends
	Batch        int     // samples in a step, over all its microbatches
	Microbatches int     // divides Batch
	Reduction    string  // of the microbatches' sums: ReduceOrder or ReduceTree; "": ReduceOrder
	EMA          float64 // decay of the average of the weights; 0: there is none
	Shuffle      bool
	Metrics      []string      // that come out at boundaries with the loss; nil: the usual ones; MetricsAll alone: all
	GradNorm     bool          // the norm of the gradients is recorded; Optimizer.ClipNorm records it, too
	LogEvery     int           // steps between losses read from the device; 0: at boundaries only
	Watch        time.Duration // between losses shown before the next boundary; 0: none are
	TensorBoard  bool          // the metrics also go to a file that TensorBoard reads
}

// The values of Train.Reduction.
const (
	ReduceOrder = "order" // one microbatch after the other
	ReduceTree  = "tree"  // by a fixed binary tree over the microbatches
)

// Optimizer describes the update of the weights.
type Optimizer struct {
	Pos        Pos
	Name       string // sgd, momentum, nesterov, adam, adamw or lion
	LR         float64
	ClipNorm   float64  // largest norm of all gradients together; 0: no clipping
	NoDecay    []string // groups of parameters without weight decay: bias, norm, embedding
	Freeze     []string // patterns of the names of parameters that are not trained; * matches anything
	Registered          // such as an *optim.AdamW
}

// Schedule describes the learning rate over the steps of a run. Counts are in
// steps.
type Schedule struct {
	Pos        Pos
	Name       string // constant, step, cosine, linear, wsd, inverse_sqrt, one_cycle or another name of the registry
	Warmup     int    // steps over which the rate rises to Optimizer.LR
	EndsAt     int    // the step at which the schedule ends, and the rate stays; 0: the run's last
	Registered        // such as an *ops.Cosine
}

// Stages describes the cut of a model: stage i holds the blocks Blocks[i]. With
// no Blocks there are Count stages, and with Count 0 one for each device.
type Stages struct {
	Count  int
	Blocks [][]string
}

// Partition describes how the model is distributed over devices.
type Partition struct {
	Pos       Pos
	Stages    Stages
	Schedule  string            // gpipe, 1f1b, interleaved, zb-h1, or the text or path of a schedule: see Order
	Replicas  int               // of the model; 0: 1
	Shard     string            // ShardNone or ShardOptimizer; "": ShardNone
	Rebalance string            // RebalanceAuto or RebalanceOff; "": RebalanceAuto
	Recompute string            // none, cheap or block
	Costs     string            // CostsAuto, CostsFlops or CostsMeasured
	Plan      string            // PlanGiven or PlanAuto
	Pin       map[string]string // device ID by block or op; nil: none
	Chosen    *ChosenPlan       // by a run of this config; nil: none yet
}

// ChosenPlan is a plan that was found, for the same run to go on with.
type ChosenPlan struct {
	Devices  []string   `yaml:"devices,flow"`       // that there were, each with its instructions and threads
	Stages   [][]string `yaml:"stages,flow"`        // blocks; none once another plan is asked for
	On       []string   `yaml:"stage_devices,flow"` // device of each stage
	Schedule string     `yaml:"schedule,omitempty"` // with PlanAuto, or where the config's plan did not fit; otherwise the config has it
	Replicas int        `yaml:"replicas,omitempty"` // with PlanAuto, or where keys of the config gave way to the devices; otherwise the config has them
}

// The values of Partition.Plan.
const (
	PlanGiven = "given" // stages, replicas and schedule are as the config says
	PlanAuto  = "auto"  // they are chosen
)

// The values of Partition.Costs.
const (
	CostsAuto     = "auto"     // measured for devices of several kinds, otherwise flops
	CostsFlops    = "flops"    // time follows from arithmetic and bytes
	CostsMeasured = "measured" // segments are timed before planning
)

// The values of Partition.Shard.
const (
	ShardNone      = "none"      // the first replica updates all parameters
	ShardOptimizer = "optimizer" // each replica updates some
)

// The values of Partition.Rebalance.
const (
	RebalanceAuto = "auto" // replicas take microbatches by their measured speed
	RebalanceOff  = "off"  // each keeps its share of the plan
)

// MaxThreads is the largest value of Devices.Threads.
const MaxThreads = 4096

// The values of Devices.OnLoss.
const (
	OnLossStop   = "stop"   // the run ends
	OnLossReplan = "replan" // it goes on without the device
)

// The values of Devices.OpByOp: all but OpByOpNone run each op by itself. Of the last
// three, it can have several, with commas.
const (
	OpByOpNone  = "none"
	OpByOpPlain = "plain"
	OpByOpLog   = "log"   // each call is printed on standard error, with its time and bytes
	OpByOpTrace = "trace" // training is recorded, as with TrainOptions.Dump
	OpByOpSync  = "sync"  // each op ends before the next is queued
)

// The values of Devices.Compile.
const (
	CompileWait   = "wait"   // before the first step
	CompileBeside = "beside" // while steps run op by op
)

// NoTimeout is the Devices.Timeout without a limit.
const NoTimeout time.Duration = -1

// Devices describes the hardware that a run may use. Where Each is not empty, it
// lists the devices, and Use, Threads and Memory are zero. A zero field of a literal
// means the key's default: see [Devices.WithDefaults].
type Devices struct {
	Pos        Pos
	Use        string // kinds and counts: "cpu:2"; "": one cpu device
	Threads    int    // worker threads of all devices together; 0: one for each core
	Memory     Memory // of each device; none: all it has
	Each       []DeviceEntry
	HostMemory int64         // bytes of host memory for tensors, batches and saves; 0: no bound
	SpillDir   string        // folder of the file for tensors beyond HostMemory; "": the run folder
	Timeout    time.Duration // the longest that one operation of a device may take; 0: 5 minutes; NoTimeout: no limit
	Compile    string        // when segments are compiled: CompileWait or CompileBeside; "": CompileWait
	Compiled   int           // executables that each device keeps though no run uses them; 0: 256
	OnLoss     string        // once a device is lost: OnLossStop or OnLossReplan; "": OnLossStop
	OpByOp     string        // how ops run: OpByOpNone or other OpByOp values; "": OpByOpNone
	// ShareDevice lets several devices of a kind be on one physical device.
	ShareDevice bool
}

// DeviceEntry describes devices of one kind, in a list of devices.
type DeviceEntry struct {
	Pos     Pos
	Use     string // a kind, or a kind and a count: "cpu:2"
	Threads int    // worker threads of these devices together; 0: an equal part of the cores that other entries leave
	Memory  Memory // of each of these devices; none: an equal part of what other entries leave
}

// Memory is a limit on a device's memory. At most one field is not zero.
type Memory struct {
	Bytes   int64
	Percent float64 // of the most that the plan takes on the device without a limit
}

// Distributed is how several processes train together.
type Distributed struct {
	Pos     Pos
	Timeout time.Duration // after which all end where one is silent, or none gets on with its step
}

// Keep decides which snapshots stay in the run folder.
type Keep struct {
	Pos   Pos
	Last  int // number of newest snapshots
	Best  int // number of best snapshots, by Checkpoint.Best
	Every int // a snapshot at a multiple of this many steps stays for good; 0: none
}

// StageWhole is the Checkpoint.Staging that copies the whole state at once.
const StageWhole = -1

// Checkpoint decides when snapshots are taken and which of them stay.
type Checkpoint struct {
	Pos Pos
	// Every and EveryTime are the interval between snapshots, in steps or as a time. At
	// most one is not 0; without either, each boundary has a snapshot.
	Every     int
	EveryTime time.Duration
	Keep      Keep
	Best      string // the metric that ranks snapshots: val_loss, or val_ and a metric
	Compress  string // none or zstd
	// Staging is the host memory of a save in bytes. StageWhole copies the whole
	// state; 0 does so where memory is free, and uses a small area otherwise.
	Staging int64
}

// EarlyStopping ends a run whose metric no longer improves.
type EarlyStopping struct {
	Pos      Pos
	Metric   string  // val_loss, or val_ and a metric
	Patience int     // boundaries without improvement before the run ends; 0: never
	MinDelta float64 // smallest change that counts as an improvement
}
