package datasets_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
)

// Batch 3 of epoch 2 is read directly, without the batches before it.
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

// A loader fills one slot while the consumer uses the other.
func ExampleLoader() {
	ctx := context.Background()
	ds, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	slots := [][][]byte{ds.Train.Alloc(512), ds.Train.Alloc(512)}
	loader, err := datasets.NewLoader(ds.Train, slots, datasets.LoaderOptions{Batch: 512, Epochs: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for {
		b, err := loader.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		labels := shape.View[int32](slots[b.Slot][1])[:b.Samples]
		fmt.Println(len(labels), "samples from", b.At)
		loader.Return(b.Slot)
	}
	// Output:
	// 512 samples from epoch 0, sample 0
	// 512 samples from epoch 0, sample 512
	// 413 samples from epoch 0, sample 1024
}

// A table to predict from is read like the training table: by its column names,
// and scaled as the training features were.
func ExampleOpenInputs() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "datasets")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	train, ask := filepath.Join(dir, "train.csv"), filepath.Join(dir, "ask.csv")
	for path, text := range map[string]string{
		train: "width,length,kind\n1,2,rose\n3,6,iris\n",
		ask:   "length,width\n4,2\n6,1\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	s := datasets.Spec{Source: "csv", Path: train, Split: 1, CSV: datasets.CSVOptions{Standardize: true}}
	ds, err := datasets.Open(ctx, s)
	if err != nil {
		log.Fatal(err)
	}
	parts, err := datasets.OpenInputs(ctx, s, &ds.Info, ask)
	if err != nil {
		log.Fatal(err)
	}
	dst := parts[0].Alloc(2)
	if _, err := parts[0].Read(datasets.Cursor{}, 2, dst); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ds.Info.Features, ds.Info.ClassNames)
	fmt.Println(shape.View[float32](dst[0]))
	// Output:
	// [width length] [iris rose]
	// [0 0 -1 1]
}
