package checkpoint_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/shape"
)

// weights is a Source of one tensor.
type weights []float32

func (w weights) Tensors() []checkpoint.Tensor {
	return []checkpoint.Tensor{{Name: "fc.weight", Meta: shape.F32(len(w)), Role: "parameter"}}
}

func (w weights) Read(_ string, off int64, dst []byte) error {
	copy(dst, shape.Bytes(w)[off:])
	return nil
}

func Example() {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := checkpoint.Open(filepath.Join(dir, "checkpoints.db"), checkpoint.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	if _, err := db.Save(ctx, checkpoint.Manifest{Step: 10, Epoch: 1}, weights{1, 2, 3}); err != nil {
		log.Fatal(err)
	}

	s, skipped, err := db.Latest(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, bad := range skipped {
		fmt.Println("skipped", bad)
	}
	w := make([]float32, 3)
	if err := s.Read("fc.weight", 0, shape.Bytes(w)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Manifest.Step, w)
	// Output: 10 [1 2 3]
}
