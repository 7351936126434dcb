package datasets_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
)

// Batch 3 of epoch 2 is read at once, without the batches before it.
func Example() {
	ds, err := datasets.Open(context.Background(), datasets.Spec{Source: "digits", Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	dst := ds.Train.Alloc(64)
	at := datasets.Cursor{Epoch: 2, Index: 3 * 64}
	n, err := ds.Train.Read(at, 64, dst)
	if err != nil {
		log.Fatal(err)
	}
	labels := shape.View[int32](dst[1])
	fmt.Println(ds.Info.Inputs[0].Meta, ds.Info.Classes, "classes")
	fmt.Println(n, "samples,", len(labels), "labels, then", ds.Train.Next(at, n))
	// Output:
	// f32[1,8,8] 10 classes
	// 64 samples, 64 labels, then epoch 2, sample 256
}
