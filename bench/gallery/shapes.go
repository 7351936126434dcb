package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
)

// side is the height and width of a shape's picture, those of CIFAR.
const side = 32

// shapes are the classes: whether a point is inside, for a shape that is about 1 in each direction from its middle.
var shapes = []struct {
	name   string
	inside func(x, y float64) bool
}{
	{"bar", func(x, y float64) bool { return math.Abs(x) < 1 && math.Abs(y) < 0.3 }},
	{"circle", func(x, y float64) bool { return math.Hypot(x, y) < 0.85 }},
	{"cross", func(x, y float64) bool {
		x, y = math.Abs(x), math.Abs(y)
		return max(x, y) < 0.95 && min(x, y) < 0.25
	}},
	{"heart", func(x, y float64) bool {
		y = -1.2*y + 0.1
		x *= 1.2
		base := float64(x*x) + float64(y*y) - 0.7
		return base*base*base < float64(x*x)*float64(y*y*y)
	}},
	{"moon", func(x, y float64) bool { return math.Hypot(x, y) < 0.95 && math.Hypot(x-0.5, y) > 0.75 }},
	{"ring", func(x, y float64) bool { r := math.Hypot(x, y); return r < 0.95 && r > 0.6 }},
	{"square", func(x, y float64) bool { return max(math.Abs(x), math.Abs(y)) < 0.75 }},
	{"star", func(x, y float64) bool {
		fifth := 2 * math.Pi / 5
		angle := math.Abs(math.Mod(math.Atan2(x, -y)+2*math.Pi+fifth/2, fifth) - fifth/2)
		return math.Hypot(x, y)*math.Cos(angle)+float64(math.Hypot(x, y)*math.Sin(angle))*1.9 < 1
	}},
	{"triangle", func(x, y float64) bool { return y < 0.6 && y > 1.75*math.Abs(x)-1 }},
	{"wave", func(x, y float64) bool { return math.Abs(x) < 1 && math.Abs(y-0.45*math.Sin(5*x)) < 0.25 }},
}

// draw is picture i of a class: the shape in some bright colour, place, size and turn, on a dark ground, with noise.
func draw(class, i int) *image.NRGBA {
	r := draws(2+class, i)
	const fine = 3 // points of a pixel in each direction
	sin, cos := math.Sincos(r.Float64() - 0.5)
	size := side * (0.25 + 0.15*r.Float64())
	midX, midY := side/2+(side/2-size)*(2*r.Float64()-1), side/2+(side/2-size)*(2*r.Float64()-1)
	front, ground := colour(r, 150), colour(r, 0)
	m := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			in := 0.0
			for k := range fine * fine {
				dx, dy := float64(x)+(float64(k%fine)+0.5)/fine-midX, float64(y)+(float64(k/fine)+0.5)/fine-midY
				if shapes[class].inside((float64(cos*dx)+float64(sin*dy))/size, (float64(cos*dy)-float64(sin*dx))/size) {
					in += 1. / (fine * fine)
				}
			}
			var p [3]byte
			for c := range p {
				v := float64(in*front[c]) + float64((1-in)*ground[c]) + float64(15*r.NormFloat64())
				p[c] = byte(min(max(v, 0), 255))
			}
			m.SetNRGBA(x, y, color.NRGBA{p[0], p[1], p[2], 255})
		}
	}
	return m
}

// colour is a colour of which each part is in the 100 from least.
func colour(r *rand.Rand, least float64) [3]float64 {
	return [3]float64{least + 100*r.Float64(), least + 100*r.Float64(), least + 100*r.Float64()}
}

// addShapes adds the first 100 pictures of each class as files, and all in CIFAR's format: four of five train.
func addShapes(files map[string][]byte, each int) error {
	var names []byte
	for class, s := range shapes {
		names = append(names, s.name+"\n"...)
		for i := range each {
			m := draw(class, i)
			if i < 100 {
				var b bytes.Buffer
				if err := png.Encode(&b, m); err != nil {
					return err
				}
				files[fmt.Sprintf("shapes/%s/%03d.png", s.name, i)] = b.Bytes()
			}
			part := "cifar/data_batch_1.bin"
			if i%5 == 4 {
				part = "cifar/test_batch.bin"
			}
			files[part] = append(files[part], byte(class))
			for channel := range 3 {
				for at := channel; at < len(m.Pix); at += 4 {
					files[part] = append(files[part], m.Pix[at])
				}
			}
		}
	}
	files["cifar/batches.meta.txt"] = names
	return nil
}
