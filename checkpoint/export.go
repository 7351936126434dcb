package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/engine/safetensors"
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
	return s.Export(context.Background(), path, func(t Tensor) string {
		if len(roles) > 0 && !slices.Contains(roles, t.Role) {
			return ""
		}
		return t.Name
	})
}

// Export is [DB.Export] with the names that name gives the tensors; "" leaves one
// out. ctx ends it.
func (s *Snapshot) Export(ctx context.Context, path string, name func(Tensor) string) error {
	var entries []safetensors.Entry
	for _, t := range s.Manifest.Tensors {
		read := func(dst []byte) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return s.Read(t.Name, 0, dst)
		}
		if n := name(t.Tensor); n != "" {
			entries = append(entries, safetensors.Entry{Name: n, Meta: t.Meta, Read: read})
		}
	}
	m := &s.Manifest
	if len(entries) == 0 {
		return fmt.Errorf("%s: checkpoint %d: %w: it has none of the tensors that are asked for", s.db.path, m.ID, ErrNotFound)
	}
	meta := map[string]string{"format": "pt", "berth.step": strconv.Itoa(m.Step), "berth.epoch": strconv.Itoa(m.Epoch)}
	if err := safetensors.WriteFile(path, entries, meta); err != nil {
		return fmt.Errorf("%s: exporting checkpoint %d: %w", s.db.path, m.ID, err)
	}
	return nil
}
