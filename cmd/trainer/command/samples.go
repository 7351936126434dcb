package command

import (
	"cmp"
	"fmt"
	"image"
	"io"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/draw"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/svg"
)

const (
	mostDrawn = 64  // images in a picture of them
	mostFine  = 128 // pixels of a side of each, which is shown at most 96 long
)

// drawSamples draws the first images of the first epoch, changed as training changes them, with their classes. Large ones are made
// smaller, and a line says so.
func drawSamples(out io.Writer, file string, data *datasets.Dataset) error {
	part, info := data.Train, &data.Info
	n := min(mostDrawn, part.Len())
	dst := part.Alloc(n)
	if _, ok := info.Image(make([]float32, info.Inputs[0].Meta.Elems())); !ok {
		return cli.Usagef("--svg: the samples are %v, and images are drawn, of one or three channels: leave it out", info.Inputs[0].Meta)
	}
	if _, err := part.Read(datasets.Cursor{}, n, dst); err != nil {
		return err
	}
	p := sampleGrid(info, data.Name, part.Fields()[1].Meta.DType == shape.Float32, n, dst)
	err := rundir.WriteOutput(file, func(w io.Writer) error {
		_, err := io.WriteString(w, p.String())
		return err
	})
	if s := info.Inputs[0].Meta.Shape; err == nil && max(s[1], s[2]) > mostFine {
		fine := drawnSize(s[1], s[2])
		_, err = fmt.Fprintf(console.NewProse(out), "%s: images of %d×%d pixels are drawn with %d×%d\n", file, s[1], s[2], fine.Y, fine.X)
	}
	return err
}

// drawnSize is the size at which an image of that height and width is drawn: with at most mostFine pixels on a side.
func drawnSize(height, width int) image.Point {
	long := max(height, width, mostFine)
	scaled := func(side int) int { return max(1, (side*mostFine+long/2)/long) }
	return image.Pt(scaled(width), scaled(height))
}

// drawn is an image at the size at which it is drawn.
func drawn(m image.Image) image.Image {
	size := drawnSize(m.Bounds().Dy(), m.Bounds().Dx())
	if size == m.Bounds().Size() {
		return m
	}
	small := image.NewRGBA(image.Rectangle{Max: size})
	draw.BiLinear.Scale(small, small.Bounds(), m, m.Bounds(), draw.Src, nil)
	return small
}

// sampleGrid is a picture of n images in rows of eight. mixed says that each has shares of several classes.
func sampleGrid(info *datasets.Info, name string, mixed bool, n int, fields [][]byte) *svg.Picture {
	const columns, side, gap, high = 8, 96.0, 12.0, 20.0
	rows := (n + columns - 1) / columns
	p := &svg.Picture{Title: fmt.Sprintf("%s: the first %d of epoch 1, as the model gets them", name, n), Width: 2*svg.Margin + columns*(side+gap) - gap}
	p.Heading()
	pixels, per := shape.View[float32](fields[0]), info.Inputs[0].Meta.Elems()
	wide, tall := side, side
	if s := info.Inputs[0].Meta.Shape; s[1] > s[2] {
		wide = side * float64(s[2]) / float64(s[1])
	} else {
		tall = side * float64(s[1]) / float64(s[2])
	}
	for i := range n {
		at := svg.Point{X: svg.Margin + float64(i%columns)*(side+gap), Y: svg.HeadingHigh + float64(i/columns)*(tall+high)}
		if m, ok := info.Image(pixels[i*per:][:per]); ok {
			p.Image(svg.Box{X: at.X + (side-wide)/2, Y: at.Y, W: wide, H: tall}, drawn(m))
		}
		if info.Classes > 0 {
			p.Text(svg.Small(at.X+side/2, at.Y+tall+high-6, targetText(info, mixed, i, fields[1])).At(svg.Middle).Fit(side))
		}
	}
	p.Height = svg.HeadingHigh + float64(rows)*(tall+high) + svg.Margin
	return p
}

// targetText is the class of sample i, or its classes with their shares.
func targetText(info *datasets.Info, mixed bool, i int, targets []byte) string {
	name := func(class int) string { return cmp.Or(info.ClassName(class), strconv.Itoa(class)) }
	if !mixed {
		return name(int(shape.View[int32](targets)[i]))
	}
	var list []string
	for class, share := range shape.View[float32](targets)[i*info.Classes:][:info.Classes] {
		if percent := math.Round(100 * float64(share)); percent == 100 {
			return name(class)
		} else if percent > 0 {
			list = append(list, fmt.Sprintf("%v%% %s", percent, name(class)))
		}
	}
	return strings.Join(list, ", ")
}
