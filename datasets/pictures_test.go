package datasets

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/filecache"
)

// plainPNG is an image of one colour.
func plainPNG(t testing.TB, width, height int, c color.Color) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		m.Set(i%width, i/width, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put writes a file, with its folder.
func put(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// photos is a folder with so many images of two classes: sea is blue, and wood green. Each image has its own shade.
func photos(t testing.TB, each int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range each {
		put(t, filepath.Join(dir, "sea", fmt.Sprintf("%03d.png", i)), plainPNG(t, 4, 4, color.NRGBA{0, 0, byte(i), 255}))
		put(t, filepath.Join(dir, "wood", "deep", fmt.Sprintf("%03d.PNG", i)), plainPNG(t, 4, 4, color.NRGBA{0, byte(i), 0, 255}))
	}
	return dir
}

func openImages(t testing.TB, s Spec) *Dataset {
	t.Helper()
	t.Setenv(filecache.Variable, t.TempDir())
	s.Source, s.Seed = "images", 7
	ds, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// allOf reads the samples of a part in their order in an epoch.
func allOf(t testing.TB, p *Part, epoch int) (pixels []float32, classes []int32) {
	t.Helper()
	dst := p.Alloc(p.Len())
	if _, err := p.Read(Cursor{Epoch: epoch}, p.Len(), dst); err != nil {
		t.Fatal(err)
	}
	return shape.View[float32](dst[0]), shape.View[int32](dst[1])
}

func TestPicturesOfFolders(t *testing.T) {
	dir := photos(t, 50)
	ds := openImages(t, Spec{Path: dir})
	info := &ds.Info
	if got := fmt.Sprint(info.Inputs[0].Meta, info.ClassNames, ds.Train.Len(), ds.Val.Len()); got != "f32[3,4,4] [sea wood] 80 20" {
		t.Errorf("data is %s", got)
	}
	if err := info.Check(); err != nil {
		t.Error(err)
	}
	pixels, classes := allOf(t, ds.Train, 0)
	var sum, squares [3]float64
	count := map[int32]int{}
	for i, class := range classes {
		count[class]++
		for j := range 48 {
			v := float64(pixels[48*i+j])
			sum[j/16] += v
			squares[j/16] += v * v
		}
		shade := func(channel int) float64 {
			return float64(pixels[48*i+16*channel])*info.Pictures.Std[channel] + info.Pictures.Mean[channel]
		}
		if blue, green := shade(2) > 1e-3, shade(1) > 1e-3; blue && class != 0 || green && class != 1 {
			t.Errorf("sample %d of class %d is blue: %v, green: %v", i, class, blue, green)
		}
	}
	if count[0] != 40 || count[1] != 40 {
		t.Errorf("the training part has %v images by class, want 40 of each", count)
	}
	for channel := range 3 {
		n := float64(16 * len(classes))
		mean, variance := sum[channel]/n, squares[channel]/n
		if want := min(channel, 1); math.Abs(mean) > 1e-5 || math.Abs(variance-float64(want)) > 1e-4 { // there is no red
			t.Errorf("channel %d has mean %v and variance %v", channel, mean, variance)
		}
	}
}

// A table of the same images is the same data, but for what divides them.
func TestPicturesOfTable(t *testing.T) {
	dir := photos(t, 20)
	var rows strings.Builder
	fmt.Fprintln(&rows, "label,path,day,owner")
	for class, folder := range []string{"sea", "wood/deep"} {
		for i := range 20 {
			ending := []string{"png", "PNG"}[class]
			fmt.Fprintf(&rows, "%s,%s/%03d.%s,2024-01-%02d,%d\n", []string{"sea", "wood"}[class], folder, i, ending, 1+i, i%5)
		}
	}
	table := filepath.Join(dir, "list.csv")
	put(t, table, []byte(rows.String()))
	a, b := openImages(t, Spec{Path: dir}), openImages(t, Spec{Path: table})
	if a.Info.Fingerprint != b.Info.Fingerprint || !slices.Equal(a.Info.ClassNames, b.Info.ClassNames) {
		t.Errorf("the folder's data is %v, the table's %v", a.Info, b.Info)
	}
	by := openImages(t, Spec{Path: table, Division: &Division{Val: 0.2, Test: 0.2, By: "owner", Stratify: true}})
	owner := func(p *Part) (list []int32) {
		for i := range p.Len() {
			list = append(list, int32(p.splitRow(i)%5))
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	if got := len(owner(by.Train)) + len(owner(by.Val)) + len(owner(by.Test)); got != 5 {
		t.Errorf("owners are in %d parts: %v %v %v", got, owner(by.Train), owner(by.Val), owner(by.Test))
	}
	latest := openImages(t, Spec{Path: table, Division: &Division{Test: 0.1, Latest: "day"}})
	for i := range latest.Test.Len() {
		if row := latest.Test.splitRow(i) % 20; row < 18 {
			t.Errorf("row %d is tested, of 20 days", row)
		}
	}
	_, err := Open(context.Background(), Spec{Source: "images", Path: table, Division: &Division{Val: 0.2, By: "person"}})
	if err == nil || Blame(err) != "split.by" || !strings.Contains(err.Error(), `no column "person"`) {
		t.Errorf("another column: %v", err)
	}
}

// Decoded images are the same in memory and in a file, and the file is read at the next start.
func TestPicturesInFile(t *testing.T) {
	dir := photos(t, 30)
	put(t, filepath.Join(dir, "sea", "broken.png"), plainPNG(t, 4, 4, color.White)[:60])
	t.Setenv(filecache.Variable, t.TempDir())
	open := func(memory int64) *Dataset {
		ds, err := Open(context.Background(), Spec{Source: "images", Path: dir, Pictures: PictureOptions{Memory: memory}})
		if err != nil {
			t.Fatal(err)
		}
		return ds
	}
	inMemory := open(1 << 20)
	cached := func() []string { return globbed(t, filepath.Join(os.Getenv(filecache.Variable), "*")) }
	if inMemory.PictureBytes() < 60*48 || len(cached()) != 0 {
		t.Errorf("images in memory take %d bytes, and there are files: %v", inMemory.PictureBytes(), cached())
	}
	for range 2 { // written, and read again
		inFile := open(2 * 60 * 48)
		if n := inFile.PictureBytes(); n >= 60*48 || len(cached()) != 1 {
			t.Errorf("images in a file take %d bytes; files: %v", n, cached())
		}
		want, _ := allOf(t, inMemory.Train, 3)
		got, _ := allOf(t, inFile.Train, 3)
		if !slices.Equal(got, want) || inFile.Info.Fingerprint != inMemory.Info.Fingerprint {
			t.Error("images in a file are others than those in memory")
		}
		if !slices.Equal(inFile.Notes, inMemory.Notes) || len(inFile.Notes) != 1 || !strings.Contains(inFile.Notes[0], "1 of 61 images left out; the first is sea/broken.png: no image: a png that cannot be read: the file ends early") {
			t.Errorf("notes %q", inFile.Notes)
		}
	}
	// Large files are decoded once, however much memory there is. What follows a PNG's end is not read.
	put(t, filepath.Join(dir, "sea", "long.png"), append(plainPNG(t, 4, 4, color.White), make([]byte, slowFrom)...))
	if n := open(1 << 30).PictureBytes(); n >= 61*48 || len(cached()) != 2 {
		t.Errorf("images of large files take %d bytes; files: %v", n, cached())
	}
}

func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestBadPictures(t *testing.T) {
	huge := plainPNG(t, 4, 4, color.White)
	copy(huge[16:], []byte{0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0}) // 100,000 by 100,000; the checksum is wrong, too
	for _, x := range []struct {
		name string
		do   func(dir string)
		want string // of the error; "": there is none
		note string // of the dataset; "": there is none
	}{
		{"left out", func(dir string) {
			put(t, filepath.Join(dir, "sea", "a.jpg"), []byte("a text\n"))
			put(t, filepath.Join(dir, "sea", "Thumbs.db"), []byte("x"))
			put(t, filepath.Join(dir, "sea", ".hidden.png"), []byte("x"))
			put(t, filepath.Join(dir, "loose.png"), huge)
		}, "", "1 image beside the folders of the classes left out|1 file that are no images by their names left out|1 of 41 images left out; the first is sea/a.jpg: no image: the file is a text"},
		{"one image", func(dir string) { put(t, filepath.Join(dir, "one", "a.png"), plainPNG(t, 4, 4, color.Black)) }, "", "1 class has one image (one)"},
		{"too many", func(dir string) {
			for i := range 5 {
				put(t, filepath.Join(dir, "sea", fmt.Sprint("x", i, ".png")), huge)
			}
		}, "5 of 45 images cannot be read, and up to a tenth may be left out; the first is sea/x0.png", ""},
		{"empty class", func(dir string) {
			if err := os.Mkdir(filepath.Join(dir, "none"), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "none has no images (.png, .jpg", ""},
		{"a class of bad images", func(dir string) { put(t, filepath.Join(dir, "bad", "a.gif"), nil) }, `no image of class "bad" can be used`, ""},
		{"several sizes", func(dir string) { put(t, filepath.Join(dir, "sea", "z.png"), plainPNG(t, 5, 4, color.White)) }, "sea/000.png has 4×4 pixels, and sea/z.png 5×4", ""},
		{"parts", func(dir string) {
			for _, part := range []string{"train", "Val"} {
				put(t, filepath.Join(dir, part, "wood", "a.png"), plainPNG(t, 4, 4, color.White))
			}
			for _, class := range []string{"sea", "wood"} {
				if err := os.RemoveAll(filepath.Join(dir, class)); err != nil {
					t.Fatal(err)
				}
			}
		}, "its folders Val, train are parts of the data, and hold the folders of the classes: name the one that trains, with split: {val: ", ""},
		{"one class", func(dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "sea")); err != nil {
				t.Fatal(err)
			}
		}, `has images of one class, "wood"`, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := photos(t, 20)
			x.do(dir)
			ds, err := Open(context.Background(), Spec{Source: "images", Path: dir})
			if x.want != "" {
				if err == nil || !strings.Contains(err.Error(), x.want) {
					t.Errorf("error %v, want %q", err, x.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, note := range strings.Split(x.note, "|") {
				if i >= len(ds.Notes) || !strings.Contains(ds.Notes[i], note) {
					t.Errorf("notes %q, want %q", ds.Notes, note)
				}
			}
		})
	}
}

// A model's scaling and classes apply to other images, in whatever folders they are.
func TestPicturesOfTrainedModel(t *testing.T) {
	dir := photos(t, 20)
	ds := openImages(t, Spec{Path: dir})
	info := kept(t, ds.Info)
	other := t.TempDir()
	put(t, filepath.Join(other, "wood", "a.png"), plainPNG(t, 8, 8, color.NRGBA{0, 7, 0, 255}))
	like := openImages(t, Spec{Path: other, Like: info})
	pixels, classes := allOf(t, like.Train, 0)
	want := float32((7.0/255 - info.Pictures.Mean[1]) / info.Pictures.Std[1])
	if like.Val != nil || classes[0] != 1 || pixels[16] != want {
		t.Errorf("class %d, green %v; want 1 and %v", classes[0], pixels[16], want)
	}
	put(t, filepath.Join(other, "lake", "a.png"), plainPNG(t, 8, 8, color.Black))
	if _, err := Open(context.Background(), Spec{Source: "images", Path: other, Like: info}); err == nil || !strings.Contains(err.Error(), `the class "lake" is none of the 2`) {
		t.Errorf("another class: %v", err)
	}
	var notes []string
	put(t, filepath.Join(other, "z.png"), []byte("x"))
	parts, err := OpenInputs(context.Background(), Spec{Source: "images", Note: func(text string) { notes = append(notes, text) }}, info, other)
	if err != nil {
		t.Fatal(err)
	}
	p := parts[0]
	if p.Len() != 2 || p.With(0)[0] != "lake/a.png" || p.With(1)[0] != "wood/a.png" || !slices.Equal(p.WithNames(), []string{"path"}) || len(notes) != 1 {
		t.Errorf("%d inputs: %v, %v; notes %q", p.Len(), p.With(0), p.With(1), notes)
	}
	file, sample := plainPNG(t, 8, 8, color.NRGBA{0, 7, 0, 255}), make([]float32, 48)
	h, err := images.Look(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := info.DecodeImage(file, h, sample); err != nil || sample[16] != want {
		t.Errorf("green %v, want %v; %v", sample[16], want, err)
	}
	numbers := make([]float32, 48)
	numbers[16] = 7.0 / 255
	info.Pictures.Standardise(numbers)
	if math.Abs(float64(numbers[16]-want)) > 1e-6 || numbers[47] != sample[47] {
		t.Errorf("numbers from 0 to 1 become %v, want %v", numbers, sample)
	}
}

// cifar writes files of CIFAR-10, or of CIFAR-100 with two labels.
func cifar(t testing.TB, dir, name string, labels, count, classes int) {
	t.Helper()
	var b []byte
	for i := range count {
		for range labels {
			b = append(b, byte(i%classes))
		}
		for j := range cifarPixels {
			b = append(b, byte(i*j))
		}
	}
	put(t, filepath.Join(dir, name), b)
}

func TestCIFAR(t *testing.T) {
	dir := t.TempDir()
	cifar(t, dir, "data_batch_1.bin", 1, 30, 10)
	cifar(t, dir, "data_batch_2.bin", 1, 20, 10)
	put(t, filepath.Join(dir, "batches.meta.txt"), []byte("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"))
	if ds := openImages(t, Spec{Path: dir}); ds.Train.Len() != 40 || ds.Val.Len() != 10 {
		t.Errorf("without test images, %d train and %d validate", ds.Train.Len(), ds.Val.Len())
	}
	cifar(t, dir, "test_batch.bin", 1, 10, 10)
	ds := openImages(t, Spec{Path: dir})
	if ds.Train.Len() != 50 || ds.Val.Len() != 10 || ds.Info.ClassNames[9] != "truck" || ds.Info.Inputs[0].Meta.String() != "f32[3,32,32]" {
		t.Errorf("%d train and %d validate: %v", ds.Train.Len(), ds.Val.Len(), ds.Info)
	}
	pixels, classes := allOf(t, ds.Train.InOrder(), 0)
	back := float64(pixels[3*cifarPixels+1025])*ds.Info.Pictures.Std[1] + ds.Info.Pictures.Mean[1]
	if want := float64(3 * 1025 % 256); classes[3] != 3 || math.Abs(255*back-want) > 1e-3 {
		t.Errorf("image 3: class %d, pixel %v; want %v", classes[3], 255*back, want)
	}
	small := openImages(t, Spec{Path: dir, Pictures: PictureOptions{Height: 8, Width: 16, Fit: images.Stretch}, Split: 1})
	if small.Train.Len() != 50 || small.Val != nil || small.Info.Inputs[0].Meta.String() != "f32[3,8,16]" {
		t.Errorf("smaller: %d train: %v", small.Train.Len(), small.Info.Inputs)
	}
	hundred := t.TempDir()
	cifar(t, hundred, "train.bin", 2, 100, 100)
	if ds := openImages(t, Spec{Path: filepath.Join(hundred, "train.bin"), Split: 1}); ds.Train.Len() != 100 || ds.Info.ClassNames[99] != "99" {
		t.Errorf("CIFAR-100: %d train, %d classes", ds.Train.Len(), ds.Info.Classes)
	}
	put(t, filepath.Join(hundred, "train.bin"), make([]byte, 3000))
	if _, err := Open(context.Background(), Spec{Source: "images", Path: hundred}); err == nil || !strings.Contains(err.Error(), "which are not whole images of 3074") {
		t.Errorf("a part of an image: %v", err)
	}
	cifar(t, hundred, "data_batch_1.bin", 1, 11, 11)
	if _, err := Open(context.Background(), Spec{Source: "images", Path: hundred}); err == nil || !strings.Contains(err.Error(), "image 11: its class is 10, and there are 10") {
		t.Errorf("another class: %v", err)
	}
}

// No table of images, and no folder beside it, makes the reading panic or read what is outside.
func FuzzPictures(f *testing.F) {
	f.Add("path,label\na.png,x\nb.jpg,y\n", []byte("\x89PNG\r\n\x1a\n"))
	f.Add("a.png,x\n../a.png,y\n/etc/passwd,z\n", plainPNG(f, 2, 2, color.Black))
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 3)), nil); err != nil {
		f.Fatal(err)
	}
	f.Add("file;class\na.png;1\n", b.Bytes())
	f.Fuzz(func(t *testing.T, table string, file []byte) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "list.csv"), []byte(table))
		put(t, filepath.Join(dir, "a.png"), file)
		if h, err := images.Look(file); err == nil && h.Height*h.Width > 1<<16 {
			return // they take their time
		}
		ds, err := Open(context.Background(), Spec{Source: "images", Path: filepath.Join(dir, "list.csv"), Pictures: PictureOptions{Height: 4, Width: 4}})
		if err == nil && ds.Train.Len() == 0 {
			t.Fatal("no images")
		}
	})
}

// A sample is looked at as the image that it was, of digits, too.
func TestImageOfSample(t *testing.T) {
	ds := openImages(t, Spec{Path: photos(t, 20), Split: 1})
	pixels, _ := allOf(t, ds.Train.InOrder(), 0)
	m, ok := ds.Info.Image(pixels[48*13:][:48])
	if want := (color.RGBA{0, 0, 13, 255}); !ok || m.At(2, 3) != want || m.Bounds() != image.Rect(0, 0, 4, 4) {
		t.Errorf("image 13 is %v, want %v", m, want)
	}
	digits, err := Open(context.Background(), Spec{Source: "digits"})
	if err != nil {
		t.Fatal(err)
	}
	sample := make([]float32, 64)
	sample[9] = 0.5
	if m, ok := digits.Info.Image(sample); !ok || m.At(1, 1) != (color.RGBA{128, 128, 128, 255}) {
		t.Errorf("a digit is %v", m)
	}
}
