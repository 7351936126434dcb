package configs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const mine = "# mine\nschedule mine stages 2 microbatches 1\n\n0: 0F0 0B0 0U\n1: 1F0 1B0 1U\n"

// A schedule's file is read from the config's folder, and its text takes the place
// of the path: a run keeps it.
func TestScheduleFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), []byte(mine), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(path, []byte(small+"partition: {schedule: ./mine.txt}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "mine.txt")); err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("config.yaml", text, Overlay{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	s, err := again.Partition.Order()
	if err != nil || s.Name != "mine" || s.Stages != 2 || again.Partition.Schedule != c.Partition.Schedule {
		t.Errorf("%v, %v from\n%s", s, err, text)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
}

// Behind a link, ".." is the folder above the link's target.
func TestScheduleFileBehindALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system cleans paths")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	err := errors.Join(os.MkdirAll("far/away", 0o777), os.Symlink("far/away", "link"),
		os.WriteFile("far/mine.txt", []byte(mine), 0o666), os.WriteFile("far/a.yaml", []byte(small+"partition: {schedule: ./mine.txt}\n"), 0o666))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load("link/../a.yaml", Overlay{}); err != nil {
		t.Error(err)
	}
	if _, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{"partition.schedule=link/../mine.txt"}}); err != nil {
		t.Error(err)
	}
}

// A path from outside the file begins at the working directory; a run keeps the text.
func TestScheduleFileFromAFlag(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("mine.txt", []byte(strings.ReplaceAll(mine, "\n", "\r\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("elsewhere/a.yaml", []byte(small), Overlay{Set: []string{"partition.schedule=mine.txt"}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Partition.Order(); err != nil || s.Name != "mine" {
		t.Error(s, err)
	}
	made := *c
	made.Partition.Schedule = "mine.txt" // by code
	rooted, err := made.Rooted()
	if err != nil || rooted.Partition.Schedule != c.Partition.Schedule {
		t.Errorf("%q, %v", rooted.Partition.Schedule, err)
	}
}

func TestScheduleErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("mine.txt", mine)
	write("bad.txt", strings.Replace(mine, "1B0", "1Z0", 1))
	write("stuck.txt", strings.Replace(mine, "0F0 0B0", "0B0 0F0", 1))
	write("large.txt", strings.Repeat("#\n", maxOrder))
	for _, c := range []struct {
		set  []string
		want string
	}{
		{[]string{"partition.schedule=1fib"}, `expected one of gpipe, 1f1b, interleaved, zb-h1; did you mean "1f1b"?; or give the path of a schedule's file, with a / or a . in it`},
		{[]string{"partition.schedule=forward"}, "expected one of gpipe, 1f1b, interleaved, zb-h1"},
		{[]string{"partition.schedule=[]"}, "expected one of gpipe"},
		{[]string{"partition.schedule=none.txt"}, "there is no file none.txt"},
		{[]string{"partition.schedule=."}, "where a file is needed"},
		{[]string{"partition.schedule=bad.txt"}, `partition.schedule: bad.txt: line 5: not a schedule: action "1Z0"`},
		{[]string{"partition.schedule=stuck.txt"}, "stuck.txt: line 4: invalid schedule: 0B0 comes before 0F0"},
		{[]string{"partition.schedule=large.txt"}, "large.txt has more than 256.0 KiB"},
		{[]string{"partition.schedule=mine.txt", "train.microbatches=2"}, `"mine" is for 1 microbatch, but train.microbatches is 2; make them equal`},
		{[]string{"partition.schedule=mine.txt", "partition.stages=3"}, `"mine" is for 2 stages, but partition.stages gives 3; make them equal`},
	} {
		_, err := Parse("a.yaml", []byte(small), Overlay{Set: c.set})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}
