package checkpoint

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/berth-ml/berth/engine/shape"
)

// The buckets and keys of the file.
var (
	bucketBerth     = []byte("berth")     // "format" and "head"
	bucketManifests = []byte("manifests") // checkpoint id → manifest
	bucketTensors   = []byte("tensors")   // checkpoint id → tensor table
	bucketChunks    = []byte("chunks")    // hash → bucket{"raw" → contents, or "zstd" → contents, compressed}

	keyFormat = []byte("format")
	keyHead   = []byte("head")
	keyRaw    = []byte("raw")
	keyZstd   = []byte("zstd")
)

const (
	maxChunk   = 1 << 30 // largest chunk size a file may declare
	sumBytes   = 16      // checksum in front of a record
	maxRecord  = 1 << 30 // largest record read into memory
	defaultCut = 4 << 20 // chunk size
)

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// seal makes a record: a checksum of bucket, key and payload, then the payload. As
// the checksum covers bucket and key, a record under another key is damaged.
func seal(bucket, key, payload []byte) []byte {
	h := recordSum(bucket, key, payload)
	return append(h[:], payload...)
}

func unseal(bucket, key, record []byte) ([]byte, error) {
	if len(record) < sumBytes {
		return nil, damaged("record %s/%x has %d bytes, too few for its checksum", bucket, key, len(record))
	}
	payload := record[sumBytes:]
	if recordSum(bucket, key, payload) != Hash(record[:sumBytes]) {
		return nil, damaged("record %s/%x does not match its checksum", bucket, key)
	}
	return payload, nil
}

func recordSum(bucket, key, payload []byte) Hash {
	b := make([]byte, 0, len(bucket)+len(key)+len(payload)+8)
	b = append(b, bucket...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = append(b, key...)
	b = append(b, payload...)
	return hashOf(b)
}

// head is the record that lists the checkpoints of the file, so that the loss of
// one is noticed.
type head struct {
	Next uint64   `json:"next"` // id of the next checkpoint
	IDs  []uint64 `json:"ids"`  // of the checkpoints there are, ascending
}

func decodeHead(payload []byte) (head, error) {
	var h head
	if err := json.Unmarshal(payload, &h); err != nil {
		return head{}, damaged("head: %w", err)
	}
	for i := 1; i < len(h.IDs); i++ {
		if h.IDs[i] <= h.IDs[i-1] {
			return head{}, damaged("head: the ids do not ascend")
		}
	}
	return h, nil
}

// formatRecord is the record of the file's format version.
type formatRecord struct {
	Format int `json:"format"`
}

// number is a float64 in JSON that may be infinite or not a number.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte(strconv.Quote(strconv.FormatFloat(f, 'g', -1, 64))), nil
	}
	return json.Marshal(f)
}

func (n *number) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' {
		b = b[1 : len(b)-1]
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*n = number(f)
	return err
}

// manifestJSON is a manifest as its record has it: JSON has no NaN and no infinity.
type manifestJSON struct {
	Format       int               `json:"format"`
	ID           uint64            `json:"id"`
	Time         time.Time         `json:"time"`
	Step         int               `json:"step"`
	Epoch        int               `json:"epoch"`
	Index        int               `json:"index"`
	Fingerprints map[string]string `json:"fingerprints,omitempty"`
	Metrics      map[string]number `json:"metrics,omitempty"`
	Best         *bestJSON         `json:"best,omitempty"`
	Extra        json.RawMessage   `json:"extra,omitempty"`
	Config       []byte            `json:"config,omitempty"`
	Bytes        int64             `json:"bytes"`
	Stored       int64             `json:"stored"`
	Fresh        int64             `json:"fresh,omitempty"` // where it is not Stored
	Count        int               `json:"count"`
	Table        Hash              `json:"table"`
	Small        Hash              `json:"small,omitzero"`
}

// links are the hashes of the records that belong to a manifest.
type links struct {
	table Hash // of the tensor table
	small Hash // of the chunk that is a second copy of small contents; zero: there is none
}

// bestJSON is a manifest's Best as its record has it.
type bestJSON struct {
	Metric   string `json:"metric"`
	Value    number `json:"value"`
	Step     int    `json:"step"`
	Minimize bool   `json:"minimize"`
	Since    int    `json:"since,omitempty"`
}

func encodeManifest(m *Manifest, to links) ([]byte, error) {
	w := manifestJSON{m.Format, m.ID, m.Time, m.Step, m.Epoch, m.Index, m.Fingerprints,
		nil, nil, m.Extra, m.Config, m.Bytes, m.Stored, 0, m.Count, to.table, to.small}
	if m.Fresh != m.Stored {
		w.Fresh = m.Fresh
	}
	if m.Metrics != nil {
		w.Metrics = make(map[string]number, len(m.Metrics))
		for k, v := range m.Metrics {
			w.Metrics[k] = number(v)
		}
	}
	if b := m.Best; b != (Best{}) {
		w.Best = &bestJSON{b.Metric, number(b.Value), b.Step, b.Minimize, b.Since}
	}
	return json.Marshal(w)
}

func decodeManifest(payload []byte) (*Manifest, links, error) {
	var w manifestJSON
	if err := json.Unmarshal(payload, &w); err != nil {
		return nil, links{}, damaged("manifest: %w", err)
	}
	if !knownFormat(w.Format) {
		return nil, links{}, fmt.Errorf("%w: checkpoint %d has format %d, this program reads %d to %d: use a matching version of berth", ErrFormat, w.ID, w.Format, Format, FormatPacked)
	}
	m := &Manifest{Format: w.Format, ID: w.ID, Time: w.Time, Step: w.Step, Epoch: w.Epoch, Index: w.Index,
		Fingerprints: w.Fingerprints, Extra: w.Extra, Config: w.Config, Bytes: w.Bytes, Stored: w.Stored, Fresh: cmp.Or(w.Fresh, w.Stored), Count: w.Count}
	if w.Metrics != nil {
		m.Metrics = make(map[string]float64, len(w.Metrics))
		for k, v := range w.Metrics {
			m.Metrics[k] = float64(v)
		}
	}
	if b := w.Best; b != nil {
		m.Best = Best{b.Metric, float64(b.Value), b.Step, b.Minimize, b.Since}
	}
	return m, links{w.Table, w.Small}, nil
}

// tableJSON lists the tensors of a checkpoint. Chunk sizes follow from the
// metadata: every chunk but a tensor's last has Chunk bytes.
type tableJSON struct {
	Chunk   int          `json:"chunk"`
	Tensors []tensorJSON `json:"tensors"`
}

// tensorJSON is a tensor in a tableJSON.
type tensorJSON struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Role   string `json:"role"`
	Chunks []Hash `json:"chunks"`
}

func encodeTable(chunk int, ts []TensorEntry) ([]byte, error) {
	w := tableJSON{Chunk: chunk, Tensors: make([]tensorJSON, len(ts))}
	for i, t := range ts {
		e := tensorJSON{t.Name, t.Meta.DType.String(), append([]int{}, t.Meta.Shape...), t.Role, make([]Hash, len(t.Chunks))}
		for k, c := range t.Chunks {
			e.Chunks[k] = c.Hash
		}
		w.Tensors[i] = e
	}
	return json.Marshal(w)
}

func decodeTable(payload []byte) (int, []TensorEntry, error) {
	var w tableJSON
	if err := json.Unmarshal(payload, &w); err != nil {
		return 0, nil, damaged("tensor table: %w", err)
	}
	if w.Chunk < 1 || w.Chunk > maxChunk {
		return 0, nil, damaged("tensor table: chunk size %d is not in 1..%d", w.Chunk, maxChunk)
	}
	ts := make([]TensorEntry, len(w.Tensors))
	names := make([]Tensor, len(ts))
	for i, e := range w.Tensors {
		t, err := decodeTensor(e, int64(w.Chunk))
		if err != nil {
			return 0, nil, damaged("tensor table: tensor %q: %w", e.Name, err)
		}
		ts[i], names[i] = t, t.Tensor
	}
	if err := checkTensors(names); err != nil {
		return 0, nil, damaged("tensor table: %w", err)
	}
	return w.Chunk, ts, nil
}

func decodeTensor(e tensorJSON, chunk int64) (TensorEntry, error) {
	m := shape.Meta{DType: dtypeNamed(e.DType), Shape: shape.Shape(e.Shape)}
	t := TensorEntry{Tensor: Tensor{e.Name, m, e.Role}}
	if err := checkMeta(m); err != nil {
		return t, fmt.Errorf("%s: %w", e.DType, err)
	}
	left := m.Bytes()
	if want := (left + chunk - 1) / chunk; want != int64(len(e.Chunks)) {
		return t, fmt.Errorf("%v needs %d chunks, %d are listed", m, want, len(e.Chunks))
	}
	t.Chunks = make([]Chunk, len(e.Chunks))
	for k, h := range e.Chunks {
		t.Chunks[k] = Chunk{h, int(min(left, chunk))}
		left -= chunk
	}
	return t, nil
}

func dtypeNamed(name string) shape.DType {
	for d := shape.Invalid + 1; d.Size() > 0; d++ {
		if d.String() == name {
			return d
		}
	}
	return shape.Invalid
}

// Second copies are stored as chunks, and so on other pages, which later saves
// do not write again. Nothing but a scan reads them.

// share is the most bytes of contents that bbolt lets share a page with others.
func (im *image) share() int { return int(im.page / 4) }

// spareRecords is a copy of a checkpoint's records.
func (im *image) spareRecords(id uint64, manifest, table []byte) []byte {
	return im.apart(append(seal(bucketManifests, idKey(id), manifest), table...))
}

// apart makes a copy so long that it does not share its page.
func (im *image) apart(b []byte) []byte {
	return append(b, make([]byte, max(0, im.share()+1-len(b)))...)
}

// appendSmall adds to a copy of small contents, in the form they have on a
// page of their own.
func appendSmall(to, data []byte) []byte {
	to = append(to, chunkMark(keyRaw)...)
	to = native.AppendUint32(to, uint32(len(data)))
	return append(append(to, keyRaw...), data...)
}

// chunkMark is what bbolt has before the size of a chunk's contents, which are the
// only element of a page: the place of the key, and its size. After the size,
// there are the key and the contents.
func chunkMark(key []byte) []byte {
	return native.AppendUint32(native.AppendUint32(nil, elemBytes), uint32(len(key)))
}
