package configs

import (
	"bytes"
	"reflect"
	"testing"
)

const small = "data: {source: digits}\nmodel: {preset: mlp}\ntrain: {batch: 2}\ndevices: {threads: 2}\n"

func parse(t *testing.T, text string, o Overlay) *Config {
	t.Helper()
	c, err := Parse("small.yaml", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPrecedence: flag over set over environment over file over default.
func TestPrecedence(t *testing.T) {
	flag, set, env := map[string]string{"threads": "5"}, []string{"devices.threads=4"}, []string{"BERTH_DEVICES_THREADS=3"}
	without := "data: {source: digits}\nmodel: {preset: mlp}\n"
	cases := []struct {
		text string
		over Overlay
		want int
	}{
		{small, Overlay{flag, set, env}, 5},
		{small, Overlay{nil, set, env}, 4},
		{small, Overlay{nil, nil, env}, 3},
		{small, Overlay{}, 2},
		{without, Overlay{}, 0},
		{without, Overlay{nil, nil, env}, 3},
		{without, Overlay{flag, nil, env}, 5},
		{small, Overlay{nil, []string{"devices.threads=8", "devices.threads=9"}, nil}, 9},
	}
	for i, c := range cases {
		if got := parse(t, c.text, c.over).Devices.Threads; got != c.want {
			t.Errorf("case %d: %d threads, want %d", i, got, c.want)
		}
	}
}

func TestOverlayValues(t *testing.T) {
	c := parse(t, small+"optimizer: sgd\n", Overlay{
		Flags: map[string]string{"devices": "cpu:3"},
		Set: []string{"model.hidden=[64, 32]", "optimizer.freeze=[\"layers.*\"]", "train.shuffle=false", "name=17",
			"optimizer=adam", "checkpoint.keep.last=7", "partition.stages=[[a], [b, c]]"},
		Env: []string{"BERTH_OPTIMIZER_LR=1e-2", "BERTH_SCHEDULE=cosine", "BERTH_OPTIMIZER=momentum", "HOME=/", "BERTH_DEBUG=3"},
	})
	for _, x := range []struct{ got, want any }{
		{c.Devices.Use, "cpu:3"}, {c.Devices.Threads, 2}, {c.Model.Hidden, []int{64, 32}}, {c.Optimizer.Freeze, []string{"layers.*"}},
		{c.Train.Shuffle, false}, {c.Train.Batch, 2}, {c.Name, "17"}, {c.Optimizer.Name, "adam"}, {c.Optimizer.LR, 0.01},
		{c.Schedule.Name, "cosine"}, {c.Checkpoint.Keep.Last, 7}, {c.Partition.Stages.Blocks, [][]string{{"a"}, {"b", "c"}}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("got %v, want %v", x.got, x.want)
		}
	}
	roundTrip(t, c)
}

// TestOverlayOnShorthand: `devices: cpu:2` keeps its kind when a flag adds a key.
func TestOverlayOnShorthand(t *testing.T) {
	c := parse(t, "data: {source: digits}\nmodel: {preset: mlp}\ndevices: cpu:2\ntrain:\n",
		Overlay{Flags: map[string]string{"threads": "4"}, Set: []string{"train.epochs=3"}})
	if c.Devices.Use != "cpu:2" || c.Devices.Threads != 4 || c.Train.Epochs != 3 || c.Devices.Pos.Line != 3 {
		t.Errorf("got %+v, %+v", c.Devices, c.Train)
	}
}

func TestFlags(t *testing.T) {
	var got []string
	for _, f := range Flags() {
		got = append(got, f.Name+" "+f.Key)
		if f.Usage == "" {
			t.Errorf("%s has no usage", f.Name)
		}
	}
	if want := []string{"devices devices.use", "threads devices.threads"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestIdentity: what decides the numbers changes it, nothing else does.
func TestIdentity(t *testing.T) {
	identity := func(set ...string) []byte {
		id, err := parse(t, small, Overlay{Set: set}).Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	base := identity()
	for _, free := range []string{"name=other", "devices.use=cpu:3", "devices.threads=1", "devices.memory=1GiB", "partition.stages=2",
		"partition.schedule=gpipe", "checkpoint.every=5", "checkpoint.keep.last=9", "train.log_every=7"} {
		if !bytes.Equal(identity(free), base) {
			t.Errorf("%s changes the identity", free)
		}
	}
	for _, bound := range []string{"seed=2", "data.split=0.7", "model.hidden=[3]", "train.epochs=11", "train.batch=4",
		"train.microbatches=2", "train.shuffle=false", "optimizer.lr=0.1", "optimizer.freeze=[a]", "schedule.warmup=3"} {
		if bytes.Equal(identity(bound), base) {
			t.Errorf("%s leaves the identity as it was", bound)
		}
	}
}

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

func TestAliases(t *testing.T) {
	c := parse(t, `
data: {source: digits}
model:
  layers:
    - &block {type: residual, layers: [relu, {type: dense, units: 64}]}
    - *block
train: {epochs: &n 3, batch: *n}
`, Overlay{})
	if len(c.Model.Layers) != 2 || c.Model.Layers[1].Body[1].Units != 64 || c.Train.Batch != 3 {
		t.Errorf("%+v %+v", c.Model.Layers, c.Train)
	}
	roundTrip(t, c)
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "512MiB": 512 << 20, "2GB": 2e9, "1.5KiB": 1536, "7 B": 7, "9007199254740993": 9007199254740993,
	} {
		c := parse(t, small, Overlay{Set: []string{"devices.memory=" + text}})
		if c.Devices.Memory != want {
			t.Errorf("%s is %d bytes, want %d", text, c.Devices.Memory, want)
		}
		roundTrip(t, c)
	}
	for _, text := range []string{"-1", "1.5.2", "3 parsecs", "99999999TiB", "1e9", "[1]"} {
		if c, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{"devices.memory=" + text}}); err == nil {
			t.Errorf("%s is taken for %d bytes", text, c.Devices.Memory)
		}
	}
}
