package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/internal/units"
)

// mostPixels is the most pixels of an image in a request.
const mostPixels = 1 << 24

// pictureReader decodes the images of a request, one at a time.
type pictureReader struct {
	info *datasets.Info
	pass *pass
	base int64 // memory that the request holds beside an image that is decoded
}

// read decodes an image into a sample, unless ctx is done. Its header says what that takes, and the request holds it meanwhile.
func (x *pictureReader) read(ctx context.Context, where string, file []byte, sample []float32) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := images.Look(file)
	if err != nil {
		return badImage(where, err)
	}
	if int64(h.Height)*int64(h.Width) > mostPixels {
		return beyond(where, "the image has %d×%d pixels, and one in a request has at most %s: make it smaller", h.Width, h.Height, units.Thousands(mostPixels))
	}
	memory, each := x.base+collector*x.info.ImageMemory(h), x.pass.gate.each.memory
	if memory > each {
		return beyond(where, "an image of %d×%d pixels takes %s of memory while it is decoded, and a request may take %s: make it smaller", h.Width, h.Height, units.Bytes(memory), units.Bytes(each))
	}
	if p := x.pass.hold(use{requests: 1, memory: memory}); p != nil {
		return p
	}
	defer func() { _ = x.pass.hold(use{requests: 1, memory: x.base}) }() // less is always there
	if err := x.info.DecodeImage(file, h, sample); err != nil {
		return badImage(where, err)
	}
	return nil
}

// badImage words an error of an image.
func badImage(where string, err error) *problem {
	return bad(where, "%s", strings.TrimPrefix(err.Error(), images.ErrImage.Error()+": "))
}

// picture reads a sample that is an image in base64, with or without "data:image/png;base64," before it.
func (x *samples) picture(ctx context.Context) error {
	var text string
	if err := json.Unmarshal(x.token(), &text); err != nil {
		return bad(x.where(), "the text cannot be read: %v", err)
	}
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		_, text, _ = strings.Cut(rest, ",")
	}
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return bad(x.where(), "this is no base64: %v: send the bytes of an image in base64", err)
	}
	from, n := len(x.floats), x.info.Inputs[0].Meta.Elems()
	x.floats = append(x.floats, make([]float32, n)...)
	return x.pictures.read(ctx, x.where(), file, x.floats[from:])
}

// filesOf are the images of a body that is no JSON: one by itself, or the parts of a form, at most so many. is says that the
// body is of that kind. One by itself is known by its Content-Type or its first bytes, with which no JSON begins: clients send
// files without a type, as application/octet-stream, or as curl's application/x-www-form-urlencoded.
func filesOf(r *http.Request, body []byte, most int) (files [][]byte, is bool, err error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "multipart/form-data":
	case err == nil && strings.HasPrefix(kind, "image/"), strings.HasPrefix(http.DetectContentType(body), "image/"):
		return [][]byte{body}, true, nil
	default:
		return nil, false, nil
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			if len(files) == 0 {
				return nil, true, bad("", "the form has no parts: send an image in each")
			}
			return files, true, nil
		}
		var file []byte
		if err == nil {
			file, err = io.ReadAll(part)
		}
		if err != nil {
			return nil, true, bad("", "the form cannot be read: %v", err)
		}
		if len(files) == most {
			return nil, true, beyond("", "a request has at most %d samples: send several requests", most)
		}
		files = append(files, file)
	}
}

// readFiles reads images into samples.
func (x *pictureReader) readFiles(ctx context.Context, files [][]byte) (*tensor.Dense, error) {
	m := x.info.Inputs[0].Meta
	floats := make([]float32, len(files)*m.Elems())
	for i, file := range files {
		where := ""
		if len(files) > 1 {
			where = fmt.Sprintf("image %d", i+1)
		}
		if err := x.read(ctx, where, file, floats[i*m.Elems():][:m.Elems()]); err != nil {
			return nil, err
		}
	}
	return tensor.New(tensor.WithShape(append([]int{len(files)}, m.Shape...)...), tensor.WithBacking(floats)), nil
}
