//go:build unix

package datasets

import (
	"context"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Links out of the folder are not followed, and what is no file is not waited for.
func TestPictureLinks(t *testing.T) {
	dir, outside := photos(t, 20), t.TempDir()
	put(t, filepath.Join(outside, "secret.png"), plainPNG(t, 4, 4, color.White))
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret.png"), "sea/out.png")
	link("nowhere.png", "sea/nowhere.png")
	link("000.png", "sea/within.png")
	if err := syscall.Mkfifo(filepath.Join(dir, "sea", "pipe.png"), 0o666); err != nil {
		t.Fatal(err)
	}
	ds, err := Open(context.Background(), Spec{Source: "images", Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	if n := ds.Train.Len() + ds.Val.Len(); n != 41 || len(ds.Notes) != 1 || !strings.Contains(ds.Notes[0], "3 of 44 images left out; the first is sea/nowhere.png: no image: a link that leads out of the folder, or nowhere") {
		t.Errorf("%d images; notes %q", n, ds.Notes)
	}
	link(outside, "zoo")
	if _, err := Open(context.Background(), Spec{Source: "images", Path: dir}); err == nil || !strings.Contains(err.Error(), "zoo: a link that leads out of the folder") {
		t.Errorf("a class that is elsewhere: %v", err)
	}
	put(t, filepath.Join(dir, "list.csv"), []byte("path,label\nsea/000.png,sea\nwood/deep/001.PNG,wood\n../secret.png,sea\n"))
	if _, err := Open(context.Background(), Spec{Source: "images", Path: filepath.Join(dir, "list.csv")}); err == nil || !strings.Contains(err.Error(), "1 of 3 images cannot be read, and up to a tenth may be left out; the first is ../secret.png: no image: its path leads out of the folder") {
		t.Errorf("a path that leads out: %v", err)
	}
}

func TestUnreadablePictures(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads any folder")
	}
	dir := photos(t, 5)
	if err := os.Chmod(filepath.Join(dir, "sea"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), Spec{Source: "images", Path: dir}); err == nil || !strings.Contains(err.Error(), "sea: permission denied") {
		t.Errorf("error %v", err)
	}
}
