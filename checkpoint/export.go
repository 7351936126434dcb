package checkpoint

import (
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
	var entries []safetensors.Entry
	for _, t := range s.Manifest.Tensors {
		if len(roles) > 0 && !slices.Contains(roles, t.Role) {
			continue
		}
		read := func(dst []byte) error { return s.Read(t.Name, 0, dst) }
		entries = append(entries, safetensors.Entry{Name: t.Name, Meta: t.Meta, Read: read})
	}
	if len(entries) == 0 {
		return fmt.Errorf("%s: checkpoint %d: %w: it has no tensor of role %q", db.path, id, ErrNotFound, roles)
	}
	meta := map[string]string{"format": "pt", "berth.step": strconv.Itoa(s.Manifest.Step), "berth.epoch": strconv.Itoa(s.Manifest.Epoch)}
	if err := safetensors.WriteFile(path, entries, meta); err != nil {
		return fmt.Errorf("%s: exporting checkpoint %d: %w", db.path, id, err)
	}
	return nil
}
