package datasets

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

func TestTensorsThatAreNotFiniteAreRefused(t *testing.T) {
	for name, bad := range map[string]float32{"NaN": float32(math.NaN()), "infinity": float32(math.Inf(-1))} {
		path := filepath.Join(t.TempDir(), "data.safetensors")
		err := safetensors.WriteFile(path, []safetensors.Entry{
			{Name: "input", Meta: shape.F32(3, 2), Bytes: shape.Bytes([]float32{1, 2, 3, 4, 5, bad})},
			{Name: "target", Meta: shape.F32(3), Bytes: shape.Bytes([]float32{1, 2, 3})},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), Spec{Source: "tensors", Path: path})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "element 1 of sample 2") {
			t.Errorf("%s: got %v, want ErrFormat naming the element", name, err)
		}
	}
}
