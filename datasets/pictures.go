package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/berth-ml/berth/datasets/images"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// PictureOptions are the options of images.
type PictureOptions struct {
	Height, Width int       // 0: those that all images have
	Fit           string    // images.Crop, images.Pad or images.Stretch; "": Crop
	Augment       []Augment // of the images that train, in this order; nil: none
	// Memory is the bound on host memory, of which decoded images take up to half; 0: of Spec.Memory.
	Memory int64 `json:"-"`
}

// Pictures describe the images that a model was trained on, beside their shape.
type Pictures struct {
	Fit string
	// Mean and Std are of the pixels of each channel, from 0 to 1, in the training part: a pixel x is
	// (x-Mean)/Std.
	Mean, Std []float64
}

// openPictures reads images: those of a folder for each class, of a table with their paths, or in the binary files of CIFAR.
func openPictures(ctx context.Context, s Spec) (_ *Dataset, err error) {
	sets, err := listPictures(ctx, s)
	if err != nil {
		return nil, err
	}
	defer closeAll(sets, &err)
	for _, p := range sets {
		if err := p.lookAll(ctx); err != nil {
			return nil, err
		}
	}
	o, err := s.pictureShape(sets)
	if err != nil {
		return nil, err
	}
	var tables []*table
	for _, p := range sets {
		t, err := p.table(ctx, s, o)
		if err != nil {
			return nil, err
		}
		if err := p.left.check(p.path, len(p.list)); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return s.pictures(ctx, sets, tables, o)
}

// pictures divides and describes decoded images. A second set validates.
func (s Spec) pictures(ctx context.Context, sets []*pictureSet, tables []*table, o images.Options) (*Dataset, error) {
	first, t := sets[0], tables[0]
	classes := first.addTargets(t)
	if err := first.checkClasses(classes, s); err != nil {
		return nil, err
	}
	if s.Division == nil && s.Split > 0 && s.Split < 1 || s.Division == nil && s.Split == 0 && len(sets) == 1 {
		s.Division, s.Split = &Division{Val: 1 - s.splitOr(0.8), Stratify: true}, 0 // a class is in both parts if it can be
	}
	keys := first.keys(classes, s)
	print := s.picturePrint(sets, o, keys)
	ds := &Dataset{Name: "images " + s.Path, Info: Info{
		Inputs: []Field{t.columns[0].field}, Target: t.columns[1].field, Classes: len(first.names), ClassNames: first.names, Fingerprint: print,
		Pictures: &Pictures{Fit: o.Fit},
	}}
	if len(sets) > 1 {
		sets[1].addTargets(tables[1])
		ds.Train, ds.Val = &Part{table: t, count: t.rows}, &Part{table: tables[1], count: tables[1].rows}
		shuffle(ds.Train, s)
	} else if err := ds.split(t, s, s.trainFraction(print, 1), keys); err != nil {
		return nil, err
	}
	for _, p := range sets {
		ds.Notes = append(ds.Notes, p.allNotes()...)
	}
	if s.Like == nil && (ds.Val != nil || ds.Test != nil) {
		ds.Notes = append(ds.Notes, first.lonely(classes)...)
	}
	t.augment = newAugmenter(s.Pictures.Augment, t.columns[0].field.Meta)
	ds.Train.varies = true
	if t.augment != nil && t.augment.mixup > 0 {
		ds.Train.soft = &Field{"target", shape.F32(len(first.names))}
	}
	return ds, ds.standardisePictures(ctx, s, tables)
}

// standardisePictures measures mean and deviation of the training part's pixels, or takes those of s.Like, and has all
// parts read as numbers of mean 0 and deviation 1.
func (ds *Dataset) standardisePictures(ctx context.Context, s Spec, tables []*table) (err error) {
	of := ds.Info.Pictures
	if s.Like != nil && s.Like.Pictures != nil {
		of = s.Like.Pictures
	} else if err = of.fit(ctx, ds.Train); err != nil {
		return err
	}
	ds.Info.Pictures = of
	for _, t := range tables {
		t.columns[0].scale = of.scale()
	}
	return nil
}

// fit measures the pixels of a part. Counts of bytes are whole numbers, so their order does not matter.
func (p *Pictures) fit(ctx context.Context, train *Part) error {
	c := &train.table.columns[0]
	channels := c.field.Meta.Shape[0]
	counts := make([][256]int64, channels)
	piece := max(1, pieceBytes/c.size)
	err := inParallel(ctx, func(yield func(int) error) error {
		for from := 0; from < train.count; from += piece {
			if err := yield(from); err != nil {
				return err
			}
		}
		return nil
	}, func(from int) (some [][256]int64, err error) {
		some = make([][256]int64, channels)
		err = train.table.guard(func() error {
			for i := from; i < min(from+piece, train.count); i++ {
				at := train.splitRow(i) * c.stride
				for j, v := range c.data[at:][:c.size] {
					some[j/(c.size/channels)][v]++
				}
			}
			return nil
		})
		return some, err
	}, func(some [][256]int64) error {
		for channel := range counts {
			for v, n := range some[channel] {
				counts[channel][v] += n
			}
		}
		return nil
	})
	for channel := range counts {
		mean, std := spreadOf(&counts[channel])
		p.Mean, p.Std = append(p.Mean, mean), append(p.Std, std)
	}
	return err
}

// spreadOf is the mean and the deviation of bytes, as numbers from 0 to 1, of which there are so many of each. A
// constant has deviation 1.
func spreadOf(counts *[256]int64) (mean, std float64) {
	n, sum := 0.0, 0.0
	for v, count := range counts {
		n += float64(count)
		sum += float64(float64(v) * float64(count))
	}
	mean = sum / n
	squares := 0.0
	for v, count := range counts {
		d := float64(v) - mean
		squares += float64(float64(d*d) * float64(count))
	}
	if squares == 0 {
		return mean / 255, 1
	}
	return mean / 255, math.Sqrt(squares/n) / 255
}

// scale is what pixels read as.
func (p *Pictures) scale() (list [][256]float32) {
	for channel := range p.Mean {
		list = append(list, ImageOptions{Mean: p.Mean[channel], Std: p.Std[channel]}.scale(255)...)
	}
	return list
}

// Image is a sample as it is looked at, if it is an image: numbers of one or three channels.
func (i *Info) Image(sample []float32) (m image.Image, ok bool) {
	s := i.Inputs[0].Meta.Shape
	if s.Rank() != 3 || s[0] != 1 && s[0] != 3 || i.Inputs[0].Meta.DType != shape.Float32 {
		return nil, false
	}
	out, plane := image.NewRGBA(image.Rect(0, 0, s[2], s[1])), s[1]*s[2]
	for at := range plane {
		out.Pix[4*at+3] = 255
		for c := range 3 {
			channel := min(c, s[0]-1)
			v := float64(sample[channel*plane+at])
			if i.Pictures != nil {
				v = float64(v*i.Pictures.Std[channel]) + i.Pictures.Mean[channel]
			}
			out.Pix[4*at+c] = byte(math.Round(255 * min(max(v, 0), 1)))
		}
	}
	return out, true
}

// check refuses what does not fit samples of some channels.
func (p *Pictures) check(input shape.Meta) error {
	if input.Shape.Rank() != 3 || len(p.Mean) != input.Shape[0] || len(p.Std) != input.Shape[0] {
		return fmt.Errorf("%w: images of %v have %d means and %d deviations", ErrSpec, input, len(p.Mean), len(p.Std))
	}
	for i, std := range p.Std {
		if mean := p.Mean[i]; !(mean >= 0 && mean <= 1 && std > 0 && std <= 1) {
			return fmt.Errorf("%w: channel %d of images has mean %v and deviation %v", ErrSpec, i, mean, std)
		}
	}
	return nil
}

// pictureShape is what images become.
func (s Spec) pictureShape(sets []*pictureSet) (o images.Options, err error) {
	o = images.Options{Height: s.Pictures.Height, Width: s.Pictures.Width, Channels: 1, Fit: s.Pictures.fitOr()}
	if like := s.Like; like != nil && like.Pictures != nil {
		return like.pictureShape(), nil
	}
	for _, p := range sets {
		for i := range p.list {
			x := &p.list[i]
			if !x.header.Grey {
				o.Channels = 3
			}
			if s.Pictures.Height > 0 {
				continue
			}
			if o.Height == 0 {
				o.Height, o.Width = x.header.Height, x.header.Width
			}
			if o.Height != x.header.Height || o.Width != x.header.Width {
				return o, blame("size", fmt.Errorf("%w: %s: the images have different sizes: %s has %d×%d pixels, and %s %d×%d: give the size that they are brought to, such as data.size: [64, 64]",
					ErrSpec, p.path, sets[0].list[0].name(), o.Width, o.Height, x.name(), x.header.Width, x.header.Height))
			}
		}
	}
	if o.Height > images.MostSide || o.Width > images.MostSide {
		return o, blame("size", fmt.Errorf("%w: %s: images of %d×%d pixels are too large for a model: give the size that they are brought to, such as data.size: [224, 224]", ErrSpec, s.Path, o.Width, o.Height))
	}
	return o, nil
}

// fitOr is Fit, or its default.
func (o *PictureOptions) fitOr() string {
	if o.Fit == "" {
		return images.Crop
	}
	return o.Fit
}

// pictureShape is what the images become that a model was trained on.
func (i *Info) pictureShape() images.Options {
	s := i.Inputs[0].Meta.Shape
	return images.Options{Height: s[1], Width: s[2], Channels: s[0], Fit: i.Pictures.Fit}
}

// picturePrint is the fingerprint of images: of the contents of their files, and of all that decides what becomes of
// them. Where they are is left out.
func (s Spec) picturePrint(sets []*pictureSet, o images.Options, keys *rowKeys) string {
	h := sha256.New()
	if s.Division != nil {
		s.Division.print(h, keys)
	}
	fmt.Fprintf(h, "%s split %v seed %d keep %v %+v %v %q\n", s.Source, s.Split, s.Seed, s.KeepOrder, o, s.Pictures.Augment, sets[0].names)
	for _, p := range sets {
		fmt.Fprintf(h, "%d images\n", len(p.list))
		for i := range p.list {
			fmt.Fprintf(h, "%x %d\n", p.list[i].digest, p.list[i].class)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// addTargets gives a table the classes of the images.
func (p *pictureSet) addTargets(t *table) (classes []int32) {
	for i := range p.list {
		classes = append(classes, p.list[i].class)
	}
	t.columns = append(t.columns, newColumn(Field{"target", shape.I32()}, shape.Bytes(classes)))
	return classes
}

// keys are what the parts of the images depend on.
func (p *pictureSet) keys(classes []int32, s Spec) *rowKeys {
	k := &rowKeys{classes: classes, class: func(class int32) string { return p.names[class] }}
	d := s.Division
	if d == nil || !d.needsKeys() || !p.keyed {
		return k
	}
	for i := range p.list {
		if d.By != "" {
			k.groups = append(k.groups, p.list[i].group)
		} else {
			k.latest = append(k.latest, p.list[i].latest)
		}
	}
	return k
}

// checkClasses refuses classes that nothing can be learnt from.
func (p *pictureSet) checkClasses(classes []int32, s Spec) error {
	if s.Like != nil {
		return nil
	}
	if len(p.names) < 2 {
		return fmt.Errorf("%w: %s has images of one class, %q: put those of each class into a folder of its own, or name the classes in a table", ErrTooFew, p.path, p.names[0])
	}
	has := make([]bool, len(p.names))
	for _, class := range classes {
		has[class] = true
	}
	if class := slices.Index(has, false); class >= 0 && !p.someClasses {
		return fmt.Errorf("%w: %s: no image of class %q can be used%s: put images there, or take the class out", ErrTooFew, p.path, p.names[class], p.left.because())
	}
	return nil
}

// lonely tells of classes that have one image.
func (p *pictureSet) lonely(classes []int32) []string {
	counts := make([]int, len(p.names))
	for _, class := range classes {
		counts[class]++
	}
	var names []string
	for class, n := range counts {
		if n == 1 {
			names = append(names, p.names[class])
		}
	}
	if names == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s one image (%s): it is trained on, so no other part judges the class", units.Count(len(names), "class")+has(len(names)), few(names))}
}

// has is the verb of so many.
func has(n int) string {
	if n == 1 {
		return " has"
	}
	return " have"
}
