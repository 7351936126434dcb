package jobs

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// BenchmarkDecision is a decision about 10,000 jobs that wait, with all that the daemon reads for it.
func BenchmarkDecision(b *testing.B) {
	path := filepath.Join(b.TempDir(), "q.db")
	q, err := queue.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	list := make([]queue.Submission, 10_000)
	for i := range list {
		list[i] = queue.Submission{
			Key: strconv.Itoa(i), Name: "digits", Config: make([]byte, 1000), Dir: "/runs/" + strconv.Itoa(i),
			Needs: []order.Need{{Kind: "cpu", Count: 1}}, Length: time.Duration(i+1) * time.Second,
		}
	}
	if _, err := q.SubmitAll(list); err != nil {
		b.Fatal(err)
	}
	if err := q.Close(); err != nil {
		b.Fatal(err)
	}
	d, err := Open(Options{Queue: path, Devices: configs.Devices{Use: "cpu:2"}})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		b.StopTimer()
		if _, err := d.queue.SetPriority(5000, -1); err != nil { // a decision follows from a change
			b.Fatal(err)
		}
		b.StartTimer()
		d.mu.Lock()
		jobs := d.queue.Jobs()
		d.heed(jobs)
		a := d.arrange(jobs, time.Now())
		d.mu.Unlock()
		if len(a.seated) != 2 {
			b.Fatal(a.seated)
		}
	}
}
