package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Export writes a checkpoint's tensors as a safetensors file, which appears whole
// or not at all. With roles, it writes the tensors of those roles alone:
// Export(id, path, "parameter") makes a file that PyTorch loads as a state_dict.
// The file's metadata has the step and epoch of the checkpoint.
func (db *DB) Export(id uint64, path string, roles ...string) error {
	s, err := db.Load(id)
	if err != nil {
		return err
	}
	return s.Export(context.Background(), path, nil, func(t Tensor) string {
		if len(roles) > 0 && !slices.Contains(roles, t.Role) {
			return ""
		}
		return t.Name
	})
}

// Export is [DB.Export] with more metadata, and with the names that name gives the tensors; ""
// leaves one out. ctx ends it.
func (s *Snapshot) Export(ctx context.Context, path string, more map[string]string, name func(Tensor) string) error {
	return s.ExportFrom(ctx, s, path, more, name)
}

// ExportFrom is Export of other tensors, which were made of the checkpoint's. Each is read whole.
func (s *Snapshot) ExportFrom(ctx context.Context, from Source, path string, more map[string]string, name func(Tensor) string) error {
	var entries []safetensors.Entry
	for _, t := range from.Tensors() {
		read := func(dst []byte) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return from.Read(t.Name, 0, dst)
		}
		if n := name(t); n != "" {
			entries = append(entries, safetensors.Entry{Name: n, Meta: t.Meta, Read: read})
		}
	}
	m := &s.Manifest
	if len(entries) == 0 {
		return fmt.Errorf("%s: checkpoint %d: %w: it has none of the tensors that are asked for", s.db.path, m.ID, ErrNotFound)
	}
	meta := map[string]string{"format": "pt", "berth.step": strconv.Itoa(m.Step), "berth.epoch": strconv.Itoa(m.Epoch)}
	maps.Copy(meta, more)
	if err := safetensors.WriteFile(path, entries, meta); err != nil {
		return fmt.Errorf("%s: exporting checkpoint %d: %w", s.db.path, m.ID, err)
	}
	return nil
}

// Import saves a new checkpoint: base, with tensors of a safetensors file in the
// place of its own. It takes the tensors whose names in the file begin with
// prefix, and removes the prefix.
//
// The file must have every tensor of the given roles, and none that base lacks,
// with base's shapes, and finite numbers in them: safetensors.ErrFinite. Float16,
// bfloat16 and float64 are converted where base has float32.
//
// The new checkpoint has base's step and data cursor, and no Metrics, because
// base's do not hold for it. The caller removes from base.Manifest.Extra what does
// not hold either.
func (db *DB) Import(ctx context.Context, base *Snapshot, path, prefix string, roles ...string) (uint64, error) {
	f, err := safetensors.Open(ctx, path)
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

// imported is a checkpoint with some of its tensors taken from a file. Import makes it, as the
// source of one save.
type imported struct {
	*Snapshot
	file   *safetensors.File
	prefix string
	given  map[string]bool // names of the tensors that the file gives
	name   string          // of the tensor that was read last
	data   []byte          // its contents
}

// check refuses a file with tensors that base lacks, without tensors that it must
// have, or with tensors of other shapes, and lists them: ErrTensors.
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
			wrong = append(wrong, fmt.Sprintf("%s%s is missing", s.prefix, t.Name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s; import weights of the same model; if their names in the file have a prefix, give it as FILE:PREFIX", ErrTensors, strings.Join(wrong, "; "))
	}
	return nil
}

// Read implements Source. The average of a tensor that the file gives begins with it.
func (s *imported) Read(name string, off int64, dst []byte) error {
	if parameter, ok := strings.CutSuffix(name, averageSuffix); ok && !s.given[name] && s.given[parameter] {
		if t, _ := s.Tensor(name); t.Role == roleAverage {
			name = parameter
		}
	}
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
		v := make([]float32, t.Meta.Elems())
		s.data = shape.Bytes(v)
		return s.file.ReadWeights(s.prefix+name, 0, v)
	case shape.Int32:
		v, err := s.file.Int32(s.prefix + name)
		s.data = shape.Bytes(v)
		return err
	}
	s.data = make([]byte, t.Meta.Bytes())
	return s.file.Read(s.prefix+name, s.data)
}
