package command

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/engine/rng"
)

func init() {
	scriptCommands["photos"] = photos
	scriptCommands["cifar"] = cifar
	scriptCommands["base64"] = inBase64
	scriptCommands["upload"] = upload
	scriptCommands["pngs"] = pngs
}

// photo is image i, of class i modulo 10: noise with a bright patch, whose place and colour are those of the class.
func photo(i, side int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, side, side))
	class, key := i%10, rng.NewKey(1, uint64(i))
	for y := range side {
		for x := range side {
			w := key.At(uint64(y*side+x), 0)
			c := color.NRGBA{byte(w[0] % 120), byte(w[1] % 120), byte(w[2] % 120), 255}
			if left, top := class%5*side/6, class/5*side/2; x >= left && x < left+side/4 && y >= top && y < top+side/3 {
				c = color.NRGBA{220, byte(20 * class), 200, 255}
			}
			m.SetNRGBA(x, y, c)
		}
	}
	return m
}

// photos DIR N writes N images of 10 classes into folders, two of three as PNG and the others as JPEG, some of them twice as large.
func photos(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: photos DIR N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for i := range n {
		m, name := photo(i, 16+i%7/6*16), fmt.Sprintf("class%d/%04d.png", i%10, i)
		var b bytes.Buffer
		if i%3 == 0 {
			name = fmt.Sprintf("class%d/%04d.jpg", i%10, i)
			err = jpeg.Encode(&b, m, nil)
		} else {
			err = png.Encode(&b, m)
		}
		path := filepath.Join(ts.MkAbs(args[0]), name)
		ts.Check(err)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
		ts.Check(os.WriteFile(path, b.Bytes(), 0o666))
	}
}

// cifar DIR N writes N images in the format of CIFAR-10 to train on, and half as many to test with.
func cifar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cifar DIR N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o777))
	for _, file := range []struct {
		name      string
		from, end int
	}{{"data_batch_1.bin", 0, n / 2}, {"data_batch_2.bin", n / 2, n}, {"test_batch.bin", n, n + n/2}} {
		var b []byte
		for i := file.from; i < file.end; i++ {
			m := photo(i, 32)
			b = append(b, byte(i%10))
			for channel := range 3 {
				for at := channel; at < len(m.Pix); at += 4 {
					b = append(b, m.Pix[at])
				}
			}
		}
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), file.name), b, 0o666))
	}
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), "batches.meta.txt"), []byte("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"), 0o666))
}

// upload STATUS TYPE FILE… asks the script's server for answers, with the contents of a file of that Content-Type, of "form" with
// those of several as parts of a form. The answer goes to the file answer.
func upload(ts *testscript.TestScript, neg bool, args []string) {
	x, runs := servers.Load(ts.Getenv("WORK"))
	if neg || len(args) < 3 || !runs {
		ts.Fatalf("usage: upload STATUS TYPE FILE…, while a server runs")
	}
	var body bytes.Buffer
	kind := args[1]
	if kind == "form" {
		form := multipart.NewWriter(&body)
		for _, name := range args[2:] {
			w, err := form.CreateFormFile("image", name)
			ts.Check(err)
			_, err = io.WriteString(w, ts.ReadFile(name))
			ts.Check(err)
		}
		ts.Check(form.Close())
		kind = form.FormDataContentType()
	} else {
		body.WriteString(ts.ReadFile(args[2]))
	}
	a, err := http.Post(x.(*served).url+"/predict", kind, &body)
	ts.Check(err)
	text, err := io.ReadAll(a.Body)
	ts.Check(errors.Join(err, a.Body.Close(), os.WriteFile(ts.MkAbs("answer"), text, 0o644)))
	if strconv.Itoa(a.StatusCode) != args[0] {
		ts.Fatalf("status %d, expected %s: %s", a.StatusCode, args[0], text)
	}
}

// inBase64 FILE OUT writes {"inputs": [FILE in base64]} into OUT. "huge" as FILE is the header of a PNG of 5,000 by 5,000
// pixels.
func inBase64(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: base64 FILE OUT")
	}
	b := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), 5000)
	b = append(binary.BigEndian.AppendUint32(b, 5000), 8, 2, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
	if args[0] != "huge" {
		var err error
		b, err = os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), fmt.Appendf(nil, `{"inputs": ["%s"]}`, base64.StdEncoding.EncodeToString(b)), 0o666))
}

// pngs FILE N HEIGHT WIDTH checks that a picture holds N images as PNG, of that size.
func pngs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: pngs FILE N HEIGHT WIDTH")
	}
	parts := strings.Split(ts.ReadFile(args[0]), "data:image/png;base64,")[1:]
	if strconv.Itoa(len(parts)) != args[1] {
		ts.Fatalf("%d images, expected %s", len(parts), args[1])
	}
	for _, part := range parts {
		text, _, _ := strings.Cut(part, `"`)
		c, err := png.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
		ts.Check(err)
		if strconv.Itoa(c.Height) != args[2] || strconv.Itoa(c.Width) != args[3] {
			ts.Fatalf("an image of %d×%d pixels, expected %s×%s", c.Height, c.Width, args[2], args[3])
		}
	}
}
