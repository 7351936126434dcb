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
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{}) // data, model, devices, plan
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
	best, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{})
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

// A model of characters, trained for a few steps on a text of its own, continues a text.
func ExampleTrained_Generate() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "text")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg, err := configs.Load("shakespeare", configs.Overlay{Set: []string{
		"data.context=16", "model.context=16", "model.layers=1", "model.width=16", "train.steps=3", "train.boundary=3", "schedule.warmup=1"}})
	if err != nil {
		log.Fatal(err)
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	if _, err := run.Train(ctx, berth.TrainOptions{Dir: dir}); err != nil {
		log.Fatal(err)
	}
	model, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: dir}, berth.TrainedOptions{Text: true})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	text := ""
	o := berth.GenerateOptions{Prompt: "ROMEO:", Tokens: 40, Temperature: 0.8, Seed: 1, Slide: true}
	done, err := model.Generate(ctx, o, func(p berth.Piece) error {
		text += p.Text // or print it at once
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(text), "characters after", done.PromptTokens, "of the prompt; it ended by its", done.End)
	// Output: 40 characters after 6 of the prompt; it ended by its tokens
}

// Two models trained at once on the same devices, each from its own goroutine.
func ExampleOpenDevices() {
	ctx := context.Background()
	devices, err := berth.OpenDevices(configs.Devices{Use: "cpu:2", Memory: configs.Memory{Bytes: 64 << 20}}, berth.DevicesOptions{})
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
			run, err := berth.Open(ctx, cfg, berth.OpenOptions{Devices: devices})
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
