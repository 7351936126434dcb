package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Import saves a new checkpoint that is base with the tensors of a safetensors
// file in place of its own: each tensor of the file whose name begins with
// prefix, less the prefix. It must give every tensor of the given roles, and
// none that base does not have, with base's shapes; float16, bfloat16 and
// float64 are converted where base has float32. The new one stands where base
// does. Base's Metrics do not hold for it, and are left out; what of its Extra
// does not is for the caller to leave out, in base.Manifest.
func (db *DB) Import(ctx context.Context, base *Snapshot, path, prefix string, roles ...string) (uint64, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	src := &imported{Snapshot: base, file: f, prefix: prefix, given: map[string]bool{}}
	if err := src.check(roles); err != nil {
		return 0, fmt.Errorf("import of %s: %w", path, err)
	}
	m := base.Manifest
	m.Time, m.Metrics = time.Time{}, nil
	return db.Save(ctx, m, src)
}

// imported is a checkpoint, with some of its tensors from a file.
type imported struct {
	*Snapshot
	file   *safetensors.File
	prefix string
	given  map[string]bool
	name   string // of the tensor that was read last
	data   []byte
}

// check lists what the file has too much, too little, or in another shape.
func (s *imported) check(roles []string) error {
	var wrong []string
	named := map[string]bool{}
	for _, t := range s.file.Tensors() {
		name, ok := strings.CutPrefix(t.Name, s.prefix)
		if !ok {
			continue
		}
		named[name] = true
		have, known := s.Tensor(name)
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("%s is not in checkpoint %d", name, s.Manifest.ID))
		case !have.Meta.Shape.Equal(t.Shape):
			wrong = append(wrong, fmt.Sprintf("%s is %v, checkpoint %d has %v", name, t.Shape, s.Manifest.ID, have.Meta.Shape))
		default:
			s.given[name] = true
		}
	}
	for _, t := range s.Tensors() {
		if slices.Contains(roles, t.Role) && !named[t.Name] {
			wrong = append(wrong, fmt.Sprintf("%s is missing", t.Name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("its tensors do not fit: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// Read implements Source.
func (s *imported) Read(name string, off int64, dst []byte) error {
	if !s.given[name] {
		return s.Snapshot.Read(name, off, dst)
	}
	if s.name != name {
		if err := s.load(name); err != nil {
			return err
		}
	}
	copy(dst, s.data[off:])
	return nil
}

// load converts a tensor of the file.
func (s *imported) load(name string) error {
	t, _ := s.Tensor(name)
	s.name = name
	switch t.Meta.DType {
	case shape.Float32:
		v, err := s.file.Float32(s.prefix + name)
		s.data = shape.Bytes(v)
		return err
	case shape.Int32:
		v, err := s.file.Int32(s.prefix + name)
		s.data = shape.Bytes(v)
		return err
	}
	s.data = make([]byte, t.Meta.Bytes())
	return s.file.Read(s.prefix+name, s.data)
}
