package socket_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/socket"
)

// A program that hands a training to the daemon of a queue file, and waits for its end.
func Example() {
	queueFile, end := daemon()
	defer end()
	ctx := context.Background()
	client, err := socket.Dial(ctx, socket.Path(queueFile), socket.ThisProgram(socket.Version()))
	if err != nil {
		log.Fatal(err) // socket.ErrNoDaemon: there is none
	}
	defer client.Close()

	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=1"}})
	if err != nil {
		log.Fatal(err)
	}
	config, err := c.Kept()
	if err != nil {
		log.Fatal(err)
	}
	s := jobs.Submission{Key: rand.Text(), Config: config, Parent: filepath.Join(filepath.Dir(queueFile), "runs"), Retries: 2}
	j, err := client.Submit(ctx, s)
	if errors.Is(err, socket.ErrNoAnswer) { // the same key makes no second job
		j, err = client.Submit(ctx, s)
	}
	if err != nil {
		log.Fatal(err)
	}
	for {
		v, err := client.View(ctx, j.ID)
		if err != nil {
			log.Fatal(err)
		}
		if v.State.Over() {
			fmt.Println("job", v.ID, v.State)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	// Output: job 1 finished
}

// daemon is what trainer up does, in this process.
func daemon() (queueFile string, end func()) {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		log.Fatal(err)
	}
	queueFile = filepath.Join(dir, "queue.db")
	d, err := jobs.Open(jobs.Options{Queue: queueFile, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()
	go func() {
		served <- socket.Serve(ctx, socket.Path(queueFile), d, socket.ThisProgram(socket.Version()), func(finish bool) { cancel() })
	}()
	for {
		c, err := socket.Dial(ctx, socket.Path(queueFile), socket.ThisProgram(socket.Version()))
		if err == nil {
			c.Close()
			break
		}
		if !errors.Is(err, socket.ErrNoDaemon) {
			log.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return queueFile, func() {
		cancel()
		if err := errors.Join(<-ran, <-served, d.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}
