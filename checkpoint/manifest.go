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

// The versions of the file format. This package reads both, and writes the
// first until something is compressed.
const (
	Format       = 1
	FormatPacked = 2 // there may be compressed chunks
)

func knownFormat(f int) bool { return f == Format || f == FormatPacked }

// Tensor is what a Source says of one tensor.
type Tensor struct {
	Name string
	Meta shape.Meta
	Role string // what it is for: "parameter", "optimizer state", …; free text to this package
}

// Source is what Save takes a snapshot from. Save calls it from one goroutine,
// and not after it has returned.
type Source interface {
	// Tensors lists what to save. Names are unique and not empty; the order
	// is kept.
	Tensors() []Tensor
	// Read fills dst with the little-endian bytes of the named tensor from
	// byte offset off on. A tensor is read once, in ascending order, in pieces
	// of at most the chunk size.
	Read(name string, off int64, dst []byte) error
}

// Lender is a Source that has contents in memory, which need not be copied.
type Lender interface {
	Source
	// Lend is in place of Read: n bytes, which stay as they are until Save has
	// returned; nil, without an error, where Read is to be called.
	Lend(name string, off int64, n int) ([]byte, error)
}

// Manifest says where a run stood at a checkpoint.
type Manifest struct {
	Format int       // of the file; set by Save
	ID     uint64    // ascending in order of saving, never used twice; set by Save
	Time   time.Time // of the save, UTC; set by Save when zero

	Step  int // optimizer steps done
	Epoch int // data cursor: the epoch the next batch is from
	Index int // data cursor: the place in that epoch

	Fingerprints map[string]string  // what the run was made from; free text to this package
	Metrics      map[string]float64 // values at this checkpoint
	Best         Best               // the best seen up to this checkpoint
	Extra        json.RawMessage    // further state of the run, any JSON
	Config       []byte             // the resolved configuration

	Bytes   int64         // contents of all tensors; set by Save
	Fresh   int64         // of these, what was not in the file yet; set by Save
	Stored  int64         // what this save wrote of them: less than Fresh where it compressed; set by Save
	Count   int           // number of tensors; set by Save
	Tensors []TensorEntry // set by Load; nil in what List returns
}

// Best is the best value of the watched metric so far.
type Best struct {
	Metric   string // name in Metrics; empty: nothing is watched
	Value    float64
	Step     int
	Minimize bool // smaller is better
}

// TensorEntry is a tensor as stored.
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

// ranks reports whether the manifest has a value to rank it by, and the value
// turned so that larger is better.
func (m *Manifest) ranks(by Best) (float64, bool) {
	v, ok := m.Metrics[by.Metric]
	if !ok || by.Metric == "" || math.IsNaN(v) {
		return 0, false
	}
	if by.Minimize {
		v = -v
	}
	return v, true
}

// checkTensors refuses what cannot be stored and read back by name.
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
	if m.DType.Size() == 0 {
		return fmt.Errorf("element type %v is not one that can be stored", m.DType)
	}
	return m.Shape.Validate()
}
