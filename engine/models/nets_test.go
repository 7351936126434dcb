package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// classes is a spec of a model that puts images of three channels into so many classes.
func classes(height, width int, layers models.Stack) models.Spec {
	return models.Spec{Input: shape.F32(3, height, width), Target: shape.I32(), Loss: "cross_entropy", Layers: layers}
}

// groups is the model Groups of ../ops/ref/testdata/nets.py.
var groups = models.Stack{
	models.Named{Name: "conv1", Layer: models.Conv2D{Channels: 6, Kernel: 3, Padding: models.Same, Dilation: 2}},
	models.Named{Name: "gn1", Layer: models.GroupNorm{Groups: 2}}, models.Relu{},
	models.Named{Name: "conv2", Layer: models.Conv2D{Channels: 9, Kernel: 3, Stride: 2, Padding: 3, Dilation: 3, Groups: 3}},
	models.Named{Name: "gn2", Layer: models.GroupNorm{Groups: 3}}, models.Relu{},
	models.AdaptiveAvgPool{Size: []int{3, 2}}, models.Flatten{}, models.Named{Name: "fc", Layer: models.Dense{Units: 5}},
}

// countOf is the elements of all parameters, without statistics, for 1,000 classes of images
// of 224x224, and the shapes of some of them.
func countOf(t *testing.T, layers models.Stack) (int, map[string]shape.Shape) {
	t.Helper()
	g, err := models.Predict(classes(224, 224, layers), models.Size{Microbatch: 1})
	if err != nil {
		t.Fatal(err)
	}
	n, shapes := 0, map[string]shape.Shape{}
	for _, v := range g.Vars {
		if shapes[v.Name] = v.Meta.Shape; v.Role == graph.Parameter {
			n += v.Meta.Elems()
		}
	}
	return n, shapes
}

// TestNetworksOfImagesHaveThePublishedSizes compares with torchvision and timm.
func TestNetworksOfImagesHaveThePublishedSizes(t *testing.T) {
	vit := func(heads, width int) models.Stack {
		return models.ViT(models.ViTOptions{Patch: 16, Layers: 12, Heads: heads, Width: width, Outputs: 1000}, at)
	}
	for name, c := range map[string]struct {
		layers models.Stack
		want   int
		shapes map[string]shape.Shape
	}{
		"resnet 18": {models.ResNet(models.ResNetOptions{Depth: 18, Outputs: 1000}, at), 11_689_512, map[string]shape.Shape{
			"conv1.weight": {64, 3, 7, 7}, "bn1.running_var": {64}, "layer4.1.conv2.weight": {512, 512, 3, 3}, "layer2.0.downsample.0.weight": {128, 64, 1, 1}, "fc.weight": {1000, 512}}},
		"resnet 34": {models.ResNet(models.ResNetOptions{Depth: 34, Outputs: 1000}, at), 21_797_672, map[string]shape.Shape{"layer3.5.bn2.bias": {256}}},
		"resnet 50": {models.ResNet(models.ResNetOptions{Depth: 50, Outputs: 1000}, at), 25_557_032, map[string]shape.Shape{
			"layer1.0.downsample.1.weight": {256}, "layer4.2.conv3.weight": {2048, 512, 1, 1}, "fc.weight": {1000, 2048}}},
		"vit tiny": {vit(3, 192), 5_717_416, map[string]shape.Shape{
			"embeddings.cls_token": {1, 1, 192}, "embeddings.position_embeddings": {1, 197, 192}, "embeddings.patch_embeddings.projection.weight": {192, 3, 16, 16},
			"encoder.layer.11.attention.attention.query.weight": {192, 192}, "encoder.layer.0.intermediate.dense.weight": {768, 192}}},
		"vit small": {vit(6, 384), 22_050_664, map[string]shape.Shape{"encoder.layer.11.output.dense.weight": {384, 1536}, "classifier.bias": {1000}}},
	} {
		n, shapes := countOf(t, c.layers)
		if n != c.want {
			t.Errorf("%s has %d parameters, expected %d", name, n, c.want)
		}
		for v, want := range c.shapes {
			if !shapes[v].Equal(want) {
				t.Errorf("%s: %s is %v, expected %v", name, v, shapes[v], want)
			}
		}
	}
}

// TestStemsOfResNet: images of 32x32 keep their size, or shrink to a quarter.
func TestStemsOfResNet(t *testing.T) {
	for small, want := range map[bool]string{true: "[2,512,4,4]", false: "[2,512,1,1]"} {
		s := classes(32, 32, models.ResNet(models.ResNetOptions{Depth: 18, Small: small, Outputs: 10}, at))
		g := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2})
		var mean *graph.Node
		var blocks []string
		for _, n := range g.Nodes {
			if r, ok := n.Op.(ops.Reduce); ok && r.Fn == "mean" && n.Phase == graph.Forward && mean == nil {
				mean = n
			}
			if n.Layer != nil && !slices.Contains(blocks, n.Layer.Block) {
				blocks = append(blocks, n.Layer.Block)
			}
		}
		if got := mean.In[0].Meta.Shape.String(); got != want {
			t.Errorf("small %v: the pool sees %s, expected %s", small, got, want)
		}
		if got, want := strings.Join(blocks, " "), "stem layer1.0 layer1.1 layer2.0 layer2.1 layer3.0 layer3.1 layer4.0 layer4.1 fc"; got != want {
			t.Errorf("blocks %s, expected %s", got, want)
		}
	}
}

func TestViTRefusesWhatItCannotCut(t *testing.T) {
	vit := models.ViT(models.ViTOptions{Patch: 4, Layers: 1, Heads: 2, Width: 8, Outputs: 3}, at)
	const line = `configs/x.yaml:14: layer 0 (patch_embedding "embeddings"): `
	for want, s := range map[string]models.Spec{
		"images of 12x10 cannot be cut into patches of 4x4: use a patch that divides both sides, or resize the images": classes(12, 10, vit),
		"its input is f32[2,5]: it takes images [batch,channels,height,width]; put a reshape layer before it":          {Input: shape.F32(5), Target: shape.I32(), Loss: "cross_entropy", Layers: vit},
	} {
		if _, err := models.Predict(s, models.Size{Microbatch: 2}); err == nil || err.Error() != line+want {
			t.Errorf("got      %v\nexpected %s", err, line+want)
		}
	}
}
