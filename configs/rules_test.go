package configs

import "testing"

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
	if c.Loss != "mse" || c.Data.Label != "3" || c.Data.Delimiter != "\t" || c.Devices.Memory != 3<<29 {
		t.Errorf("%s, %+v, %d", c.Loss, c.Data, c.Devices.Memory)
	}
	if l[0].Padding != 2 || l[0].Groups != 1 || !l[0].Bias || l[1].Stride != 3 || l[2].Name != "relu_2" || l[0].Name != "conv2d_1" {
		t.Errorf("%+v", l)
	}
	roundTrip(t, c)
}
