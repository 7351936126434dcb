package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// onTable is the config of a training on a table.
func onTable(t *testing.T, dir string, rows int, set ...string) []byte {
	t.Helper()
	path := filepath.Join(dir, "x.csv")
	if _, err := os.Stat(path); err != nil {
		table := "a,b,c,label\n"
		for i := range rows {
			table += fmt.Sprintf("%d,%d,%d,%s\n", i%17, i*7%23, i, []string{"yes", "no"}[i/3%2])
		}
		if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := configs.Parse("table", []byte("name: table\ndata: {source: csv, path: "+path+"}\nmodel: {preset: mlp, hidden: [8]}\n"), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestEqualData: jobs of equal data that run at once have one copy of it, which is gone after the last one.
func TestEqualData(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:2")
	var ids []int
	for i := range 2 {
		ids = append(ids, d.submit(t, dir, fmt.Sprint(i), onTable(t, dir, 2000, "train.epochs=30", fmt.Sprintf("train.batch=%d", 32+i))))
	}
	both := false
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		bytes, views := d.owned.Data().Bytes(), d.Views()
		if views[0].Data < 4*2000 || views[0].DataID != views[1].DataID || bytes > views[0].Data {
			t.Fatalf("%d bytes of data are open: %+v", bytes, views)
		}
		both = both || views[0].State == queue.Running && views[1].State == queue.Running && bytes == views[0].Data
		if views[0].State.Over() && views[1].State.Over() {
			break
		}
	}
	for _, id := range ids {
		if v := d.await(t, id); v.State != queue.Finished {
			t.Errorf("job %d is %s: %s", id, v.State, v.Failure())
		}
	}
	if n := d.owned.Data().Bytes(); !both || n != 0 {
		t.Errorf("both ran: %t; %d bytes of data are left", both, n)
	}
}

// TestEqualDataOfAJobThatGoesOn: one that goes on after a pause has the copy of one that began meanwhile.
func TestEqualDataOfAJobThatGoesOn(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:2")
	first := d.submit(t, dir, "first", onTable(t, dir, 2000, "train.epochs=30", "data.standardize=true"))
	for v, _ := d.View(first); v.Step < 100; v, _ = d.View(first) {
		time.Sleep(time.Millisecond)
	}
	if _, err := d.Want(first, queue.Pause); err != nil {
		t.Fatal(err)
	}
	for v, _ := d.View(first); v.State != queue.Paused; v, _ = d.View(first) {
		time.Sleep(time.Millisecond)
	}
	second := d.submit(t, dir, "second", onTable(t, dir, 2000, "train.epochs=200", "data.standardize=true"))
	for v, _ := d.View(second); v.Step < 1; v, _ = d.View(second) {
		time.Sleep(time.Millisecond)
	}
	if _, err := d.Want(first, queue.Run); err != nil {
		t.Fatal(err)
	}
	one := d.Views()[0].Data
	for both := false; !both; time.Sleep(time.Millisecond) {
		bytes, v := d.owned.Data().Bytes(), d.Views()
		if both = v[0].State == queue.Running && v[0].Step > 100; v[0].State.Over() || v[1].State.Over() {
			t.Fatalf("they do not run at once: %+v", v)
		}
		if both && bytes != one {
			t.Fatalf("%d bytes of data are open; one copy has %d", bytes, one)
		}
	}
}
