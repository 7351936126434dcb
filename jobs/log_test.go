package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestLog: a log is bounded, and a reader beside the writer misses nothing at its turns.
func TestLog(t *testing.T) {
	testall.Long(t)
	dir := filepath.Join(t.TempDir(), "run")
	l, err := openLog(&queue.Job{ID: 8, Name: "my", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const lines = 3 * MostLog / 100
	written := make(chan bool)
	var wrote sync.WaitGroup
	wrote.Go(func() {
		defer close(written)
		for i := range lines {
			fmt.Fprintf(l, "%099d\n", i)
			if i%1000 == 0 {
				written <- true
			}
		}
	})
	r := NewLogReader(dir)
	defer r.Close()
	var got strings.Builder
	for range written { // the writer goes on while this reads
		if err := r.Copy(&got); err != nil {
			t.Fatal(err)
		}
	}
	wrote.Wait()
	if err := r.Copy(&got); err != nil {
		t.Fatal(err)
	}
	const head = "log of job 8 (my)\n" // of each file
	text := strings.ReplaceAll(got.String(), head, "")
	if got.Len()-len(text) < 2*len(head) {
		t.Errorf("the log begins with %.40q", got.String())
	}
	for i := range lines {
		if line := text[i*100 : i*100+100]; line != fmt.Sprintf("%099d\n", i) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	size := int64(0)
	for _, name := range []string{LogName, OlderLogName} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > MostLog {
		t.Errorf("the log has %d bytes", size)
	}
}
