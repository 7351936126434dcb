package berth_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// A shipped config, trained for two epochs, and its best checkpoint evaluated
// and asked for its first answer.
func Example() {
	ctx := context.Background()
	cfg, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=2"}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := berth.Open(ctx, cfg) // data, model, devices, plan
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	dir, err := os.MkdirTemp("", "digits")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	report, err := run.Train(ctx, berth.TrainOptions{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	best, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: dir, Best: true})
	if err != nil {
		log.Fatal(err)
	}
	defer best.Close()
	answer, err := best.Eval(ctx)
	if err != nil {
		log.Fatal(err)
	}
	classes := 0
	_, err = best.Predict(ctx, "", func(p berth.Prediction) error {
		classes = len(p.Values)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Steps, "steps,", answer.Samples, "samples to validate with,", classes, "classes")
	// Output: 90 steps, 360 samples to validate with, 10 classes
}

// Two models trained at once on the same devices, each from its own goroutine.
func ExampleOpenDevices() {
	ctx := context.Background()
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu:2", Memory: configs.Memory{Bytes: 64 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	defer devices.Close()
	dir, err := os.MkdirTemp("", "both")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	steps := make([]int, 2)
	var both sync.WaitGroup
	for i, name := range []string{"digits", "digits-cnn"} {
		both.Go(func() {
			cfg, err := configs.Load(name, configs.Overlay{Set: []string{"train.epochs=1"}})
			if err != nil {
				log.Fatal(err)
			}
			run, err := devices.Open(ctx, cfg)
			if err != nil {
				log.Fatal(err)
			}
			defer run.Close()
			report, err := run.Train(ctx, berth.TrainOptions{Dir: filepath.Join(dir, name)})
			if err != nil {
				log.Fatal(err)
			}
			steps[i] = report.Steps
		})
	}
	both.Wait()
	fmt.Println(steps, "steps")
	// Output: [45 45] steps
}
