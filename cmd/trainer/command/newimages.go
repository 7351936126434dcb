package command

import (
	"context"
	"fmt"
	"strconv"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/configs"
	shown "github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// images asks about a folder of IDX images, and writes its config.
func (n *starter) images(ctx context.Context, cfg *configs.Config) ([]byte, error) {
	data, err := berth.ReadData(ctx, cfg)
	if err != nil {
		return nil, unplaced(err)
	}
	size := data.Info.Inputs[0].Meta.Shape
	d := imageDraft{name: nameOfData(n.out), path: n.pathThere(), images: data.Train.Len(), classes: data.Info.Classes}
	fmt.Fprintf(console.NewProse(n.command.OutOrStdout()), "images %s: %s of %d×%d pixels to train on, in %s\n", shown.Printed(n.path), units.Thousands(d.images), size[len(size)-2], size[len(size)-1], units.Count(d.classes, "class"))
	d.size, err = n.ask(ctx, "A model that learns in minutes, or in an hour (small, medium)?", "small", oneOf("small", "medium"))
	return d.yaml(), err
}

// photos asks about a folder of photos, and writes its config.
func (n *starter) photos(ctx context.Context, cfg *configs.Config) ([]byte, error) {
	done := phase.Wait(ctx, n.command.ErrOrStderr(), "reading")
	data, err := berth.ReadData(ctx, cfg)
	if done(); err != nil {
		return nil, unplaced(err)
	}
	given, err := n.given()
	if err != nil {
		return nil, err
	}
	size := data.Info.Inputs[0].Meta.Shape
	d := imageDraft{name: nameOfData(n.out), path: n.pathThere(), images: data.Train.Len(), classes: data.Info.Classes, given: given, side: strconv.Itoa(size[1])}
	out := console.NewProse(n.command.OutOrStdout())
	fmt.Fprintf(out, "images %s: %s, in %s\n", shown.Printed(n.path), units.Count(d.images, "image"), units.Count(d.classes, "class"))
	for _, note := range data.Notes {
		fmt.Fprintln(out, note)
	}
	cifar := holdsCIFAR(n.path)
	if !cifar && !n.gives("data.size") {
		d.side, err = n.ask(ctx, "Height and width of the images that the model sees, in pixels (more take longer)?", d.side, func(s string) error {
			if v, err := strconv.Atoi(s); err != nil || v < 8 || v > 512 {
				return fmt.Errorf("%s: expected a whole number from 8 to 512", s)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if cifar || n.gives("data.size") {
		d.side = ""
	}
	d.size, err = n.ask(ctx, "A model that learns in minutes, or in an hour (small, medium)?", "small", oneOf("small", "medium"))
	return d.photosYAML(n.gives("data.augment")), err
}
