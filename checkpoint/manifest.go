package checkpoint

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/zeebo/xxh3"
)

// The versions of the file format. This package reads both. A file has the first
// until something is compressed.
const (
	Format       = 1
	FormatPacked = 2 // there may be compressed chunks
)

func knownFormat(f int) bool { return f == Format || f == FormatPacked }

// Tensor names and describes one tensor of a Source.
type Tensor struct {
	Name string
	Meta shape.Meta
	Role string // the tensor's use: "parameter", "optimizer state", …; free text to this package
}

// Source is the state that Save takes a snapshot of. Save calls it from one
// goroutine, and never after it has returned.
type Source interface {
	// Tensors lists the tensors to save. Names are unique and not empty. The
	// order is kept.
	Tensors() []Tensor
	// Read fills dst with the little-endian bytes of the named tensor, from
	// byte off on. A tensor is read once, in ascending order, in pieces of at
	// most the chunk size. Save returns its error as it is: it names the tensor.
	Read(name string, off int64, dst []byte) error
}

// Lender is a Source whose contents are in memory and need not be copied.
type Lender interface {
	Source
	// Lend is called in place of Read. It returns n bytes that do not change
	// until Save has returned. If it returns nil without an error, Read is called.
	Lend(name string, off int64, n int) ([]byte, error)
}

// Manifest describes a checkpoint: the state of the run, and its size.
type Manifest struct {
	Format int       // format version of the file; set by Save
	ID     uint64    // ascending in order of saving, never used twice; set by Save
	Time   time.Time // of the save, UTC; set by Save when zero

	Step  int // optimizer steps done
	Epoch int // data cursor: the epoch the next batch is from
	Index int // data cursor: the position of that batch in the epoch

	Fingerprints map[string]string  // of the data, the model, …, to notice changes; free text to this package
	Metrics      map[string]float64 // values at this checkpoint
	Best         Best               // the best seen up to this checkpoint
	Extra        json.RawMessage    // further state of the run, any JSON
	Config       []byte             // the resolved configuration

	Bytes   int64         // of all tensors; set by Save
	Fresh   int64         // bytes of these that the file did not have yet; set by Save
	Stored  int64         // bytes that this save wrote for them, below Fresh if it compressed; set by Save
	Count   int           // number of tensors; set by Save
	Tensors []TensorEntry // set by Load; nil in what List returns
}

// Best is the best value of the watched metric so far.
type Best struct {
	Metric   string // name in Metrics; empty: nothing is watched
	Value    float64
	Step     int
	Minimize bool // smaller is better
	// Since is the step up to which checkpoints have other values under that name, which do not compare; 0:
	// all compare.
	Since int `json:",omitempty"`
}

// TensorEntry is a stored tensor.
type TensorEntry struct {
	Tensor
	Chunks []Chunk // contents in order
}

// Chunk is a piece of a tensor's contents.
type Chunk struct {
	Hash Hash
	Size int
}

// Hash is XXH3-128 of a chunk's contents, in canonical (big-endian) form. It
// guards against damage, not against someone who constructs collisions.
type Hash [16]byte

func hashOf(b []byte) Hash { return xxh3.Hash128(b).Bytes() }

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 2*len(h) {
		return fmt.Errorf("a hash has %d hexadecimal digits, not %d", 2*len(h), len(b))
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// ranks is the value of the watched metric, negated if smaller is better, and
// whether the manifest has one.
func (m *Manifest) ranks(by Best) (float64, bool) {
	v, ok := m.Metrics[by.Metric]
	if !ok || by.Metric == "" || math.IsNaN(v) || by.Since > 0 && m.Step <= by.Since {
		return 0, false
	}
	if by.Minimize {
		v = -v
	}
	return v, true
}

// checkTensors refuses tensors that cannot be stored and read back by name.
func checkTensors(ts []Tensor) error {
	seen := make(map[string]bool, len(ts))
	for i, t := range ts {
		if t.Name == "" {
			return fmt.Errorf("tensor %d of %d has no name", i, len(ts))
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q is listed twice: names must be unique", t.Name)
		}
		seen[t.Name] = true
		if err := checkMeta(t.Meta); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

func checkMeta(m shape.Meta) error {
	if m.DType.Size() == 0 || m.DType == shape.Int8Block { // blocks are of bases, which are in files of their own
		return fmt.Errorf("elements of type %v cannot be stored", m.DType)
	}
	return m.Shape.Validate()
}

// Used says which weights a result is of.
type Used struct {
	ID       uint64    `json:"checkpoint,omitempty"`      // 0: the weights are File's
	Step     int       `json:"step,omitempty"`            // of the checkpoint
	Best     bool      `json:"best,omitempty"`            // it is the folder's best by the watched metric
	BestID   uint64    `json:"best_checkpoint,omitempty"` // the folder's best; 0: no checkpoint has the metric
	Saved    time.Time `json:"-"`                         // when the checkpoint was; a run that begins anew gives the same IDs again
	NewestID uint64    `json:"-"`                         // the folder's newest when the weights were chosen
	File     string    `json:"file,omitempty"`            // a file of weights
	Skipped  []Skipped `json:"-"`                         // damaged checkpoints passed over to find a whole one
}
