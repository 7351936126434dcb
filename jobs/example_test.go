package jobs_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// A program that trains jobs of its own: trainer up is one.
func Example() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ended := make(chan queue.Job, 1)
	d, err := jobs.Open(jobs.Options{
		Queue:   filepath.Join(dir, "queue.db"),
		Devices: configs.Devices{Use: "cpu:2"},
		Ended:   func(j queue.Job) { ended <- j },
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()

	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=1"}})
	if err != nil {
		log.Fatal(err)
	}
	config, err := c.Kept() // means the same from any folder
	if err != nil {
		log.Fatal(err)
	}
	s := jobs.Submission{Key: rand.Text(), Config: config, Parent: filepath.Join(dir, "runs"), Retries: 2}
	if _, err := d.Submit(ctx, s); err != nil {
		log.Fatal(err)
	}
	j := <-ended
	fmt.Println("job", j.ID, j.State)

	stop() // running jobs are saved
	if err := <-ran; err != nil {
		log.Fatal(err)
	}
	if err := d.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: job 1 finished
}
