package configs

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	_ "github.com/berth-ml/berth/engine/optim" // registers the optimizers
)

func TestResolved(t *testing.T) {
	c := parse(t, `
data: {source: text, path: builtin:shakespeare, context: 32}
model: {preset: gpt}
`, Overlay{})
	if c.Model.Context != 32 || c.Data.Context != 32 || c.Loss != "cross_entropy" || c.Data.Task != "classification" || c.Data.Split != 0.9 {
		t.Errorf("text: %+v %+v %s", c.Data, c.Model, c.Loss)
	}
	c = parse(t, `
data: {source: text, path: builtin:shakespeare}
model: {preset: gpt, context: 48}
`, Overlay{})
	if c.Data.Context != 48 {
		t.Errorf("the windows have %d characters, want the model's 48", c.Data.Context)
	}
	c = parse(t, `
data: {source: csv, path: a.csv, task: regression, label: 3, delimiter: "\t"}
model:
  layers: [{type: conv2d, channels: 4, kernel: 5, padding: same}, {type: max_pool, kernel: 3}, relu, {type: relu, name: relu_1}, {type: dense, units: 1}]
devices: {memory: 1.5GiB}
`, Overlay{})
	l := c.Model.Layers
	conv, pool := l[0].Keys.(*models.Conv2D), l[1].Keys.(*models.MaxPool)
	if c.Loss != "mse" || c.Data.Label != "3" || c.Data.Delimiter != "\t" || c.Devices.Memory.Bytes != 3<<29 {
		t.Errorf("%s, %+v, %v", c.Loss, c.Data, c.Devices.Memory)
	}
	if conv.Padding != 2 || conv.Groups != 1 || conv.NoBias || pool.Stride != 3 || l[2].Name != "relu_2" || l[0].Name != "conv2d_1" {
		t.Errorf("%+v", l)
	}
	roundTrip(t, c)
}

// TestLastLayer: a last layer that the loss applies itself is refused, with its
// line. Elsewhere it is accepted.
func TestLastLayer(t *testing.T) {
	const classes, numbers = "data: {source: digits}\n", "data: {source: csv, path: a.csv, task: regression}\n"
	for _, c := range []struct{ text, want string }{
		{classes + "model:\n  layers:\n    - {type: dense, units: 10}\n    - softmax\n", "a.yaml:5: model.layers[1]: softmax before loss cross_entropy"},
		{classes + "model: {layers: [{type: dense, units: 10}, softmax, relu, {type: dense, units: 10}]}\n", ""},
		{classes + "model: {layers: [{type: dense, units: 10}, log_softmax]}\n", ""}, // changes nothing
		{classes + "model: {layers: [{type: residual, layers: [softmax]}]}\n", ""},
		{numbers + "loss: bce\nmodel:\n  layers:\n    - {type: dense, units: 1}\n    - sigmoid\n    - flatten\n", "a.yaml:6: model.layers[1]: sigmoid before loss bce"},
		{numbers + "loss: bce\nmodel: {layers: [{type: dense, units: 1, activation: sigmoid}]}\n", "a.yaml:3: model.layers[0].activation: sigmoid before"},
		{numbers + "loss: mse\nmodel: {layers: [{type: dense, units: 1}, sigmoid]}\n", ""},
	} {
		_, err := Parse("a.yaml", []byte(c.text), Overlay{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\ngot %v, want %q", c.text, err, c.want)
		}
	}
}
