package configs

import (
	"fmt"
	"strings"
)

// Pos is where a value of a config was written. Line counts from 1; it is 0
// for what no file says, and File is then empty or names the flag or variable.
type Pos struct {
	File string
	Line int
}

// String gives "file:line", or what is known of it.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Config is one run, resolved: every default is filled in, every value is in
// range, and keys that depend on each other agree.
type Config struct {
	Pos           Pos
	Name          string // names the run folder; the file's base name by default
	Seed          uint64
	Data          Data
	Model         Model
	Loss          string // cross_entropy, mse or bce
	Precision     string // float32 or bf16
	Train         Train
	Optimizer     Optimizer
	Schedule      Schedule
	Partition     Partition
	Devices       Devices
	Checkpoint    Checkpoint
	EarlyStopping EarlyStopping

	where map[string]Pos
}

// Where is the place of a key, by its dotted path: the key itself if it was
// given, else the nearest section around it that was.
func (c *Config) Where(path string) Pos {
	for path != "" {
		if p, ok := c.where[path]; ok {
			return p
		}
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
	return c.Pos
}

// Data says what is trained on. Fields that the source has no key for are zero,
// but Task, which is always set.
type Data struct {
	Pos         Pos
	Source      string   // digits, mnist, csv, text or tensors
	Path        string   // a file or folder, or "builtin:NAME"
	Split       float64  // the part trained on, in [0, 1]; 1 leaves nothing to validate with, 0 (mnist) is the files' own
	Header      string   // csv: auto, true or false
	Label       string   // csv: a column's name, or its number from 0 (from the end if negative)
	Ignore      []string // csv: columns left out, as Label names them
	Delimiter   string   // csv: one character
	Task        string   // classification or regression
	Standardize bool     // csv
	// StandardizeTarget is of csv and regression.
	StandardizeTarget bool
	Context           int    // text: characters in a window
	Input             string // tensors: a tensor's name in Path, or a .npy file
	Target            string // tensors: the same
	Prefix            string // tensors: put before both names
}

// Model is a preset with its parameters (Preset != "") or a list of layers.
type Model struct {
	Pos        Pos
	Preset     string // mlp, cnn, gpt, or "" for Layers
	Layers     []Layer
	Hidden     []int   // mlp, cnn: widths of the dense layers before the last
	Channels   []int   // cnn: one block of convolution, activation and 2x2 max pooling each
	Kernel     int     // cnn
	Outputs    int     // mlp, cnn: width of the last layer; 0 takes it from the data
	Activation string  // relu, gelu, gelu_tanh, silu, sigmoid or tanh
	Dropout    float64 // gpt
	Blocks     int     // gpt, key "layers": how many transformer blocks
	Heads      int
	Width      int
	Context    int // gpt: rows of the table of positions
	Vocab      int // gpt: rows of the table of tokens; 0 takes it from the data
	Tied       bool
}

// Layer is an entry of Model.Layers. Type says which of the other fields mean
// something; `Reference` lists them.
type Layer struct {
	Pos        Pos
	Type       string
	Name       string // unique in the model
	Units      int
	In         int // 0: whatever comes in
	Channels   int
	Kernel     int
	Stride     int
	Padding    int
	Groups     int
	Bias       bool
	Activation string // "": none
	Rate       float64
	Eps        float64
	Momentum   float64
	Heads      int
	Vocab      int // 0: from the data
	Width      int
	Context    int // 0: from the data
	Shape      []int
	Perm       []int
	Start      []int
	Stop       []int
	Axes       []int
	Keep       bool
	Axis       int
	Scale      float64
	Shift      float64
	Body       []Layer
}

// Train says how long and in what pieces.
type Train struct {
	Pos          Pos
	Epochs       int
	Batch        int // samples in a step, over all microbatches
	Microbatches int // divides Batch
	Shuffle      bool
	LogEvery     int // 0: losses come out at the epoch's end
}

// Optimizer says how weights are updated.
type Optimizer struct {
	Pos         Pos
	Name        string // sgd, momentum, nesterov, adam or adamw
	LR          float64
	WeightDecay float64
	ClipNorm    float64  // 0: no clipping
	NoDecay     []string // of bias, norm, embedding
	Freeze      []string // patterns of parameter names, * matches anything
	Momentum    float64  // momentum, nesterov
	Betas       [2]float64
	Eps         float64
}

// Schedule says how the learning rate moves; all counts are in steps.
type Schedule struct {
	Pos    Pos
	Name   string // constant, step, cosine or linear
	Warmup int
	Every  int     // step
	Gamma  float64 // step
	MinLR  float64 // cosine, linear
}

// Stages is how a model is cut: by hand where Blocks is not empty, into Count
// stages otherwise, and Count 0 leaves the number open.
type Stages struct {
	Count  int
	Blocks [][]string
}

// Partition says how the model is spread over devices.
type Partition struct {
	Pos       Pos
	Stages    Stages
	Schedule  string // gpipe or 1f1b
	Recompute string // none, cheap or block
}

// MaxThreads is the most worker threads that may be asked for.
const MaxThreads = 4096

// Devices says what the run may use.
type Devices struct {
	Pos     Pos
	Use     string // "cpu:2"
	Threads int    // 0: all cores
	Memory  int64  // bytes on each device; 0: as much as it has
}

// Keep says how many snapshots stay in the run folder.
type Keep struct {
	Pos   Pos
	Last  int
	Best  int
	Every int // steps; 0: none for that
}

// StageWhole as Checkpoint.Staging has the whole state copied at once.
const StageWhole = -1

// Checkpoint says when snapshots are taken and which stay.
type Checkpoint struct {
	Pos   Pos
	Every int // steps; 0: at epoch ends only
	Keep  Keep
	Best  string // val_loss or val_accuracy
	// Compress is none or zstd.
	Compress string
	// Staging is the host memory that a save goes through, in bytes: StageWhole
	// for a copy of the whole state; 0 for that where there is room, or little.
	Staging int64
}

// EarlyStopping ends a run whose metric no longer improves. Patience 0 is off.
type EarlyStopping struct {
	Pos      Pos
	Metric   string // val_loss or val_accuracy
	Patience int    // epochs
	MinDelta float64
}
