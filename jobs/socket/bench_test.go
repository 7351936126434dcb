package socket

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// BenchmarkViews is a list of 10,000 jobs, as a command gets it from a daemon.
func BenchmarkViews(b *testing.B) {
	path := filepath.Join(b.TempDir(), "q.db")
	many(b, path)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:2"}})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, Path(path), d, ThisProgram("1"), func(bool) {}) }()
	defer func() { cancel(); <-served }()
	time.Sleep(50 * time.Millisecond)
	c, err := Dial(ctx, Path(path), ThisProgram("1"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if list, _, err := c.Views(ctx); err != nil || len(list) != 10_000 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkView is one of 10,000 jobs, as a command asks for it that waits for its end.
func BenchmarkView(b *testing.B) {
	path := filepath.Join(b.TempDir(), "q.db")
	many(b, path)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:2"}})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		if _, err := d.View(5000); err != nil {
			b.Fatal(err)
		}
	}
}

// many queues 10,000 jobs.
func many(b *testing.B, path string) {
	b.Helper()
	q, err := queue.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		_, err := q.Submit(queue.Submission{
			Key: strconv.Itoa(i), Name: "digits", Config: make([]byte, 1000), Dir: "/runs/" + strconv.Itoa(i),
			Needs: []order.Need{{Kind: "cpu", Count: 1}}, Length: time.Duration(i+1) * time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		b.Fatal(err)
	}
}
