package session_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// Keys that gave way to fewer devices do so each time that the run goes on there, and hold
// again once the devices are back.
func TestKeysGiveWayAgain(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {microbatches: 4, reduction: tree}\ndevices: cpu:4\n"
	for _, c := range []struct{ partition, fewer, note string }{
		{"{replicas: 4}", "cpu:2", "partition.replicas: 2 replicas in place of 4"},
		{"{replicas: 2}", "cpu:1", "partition.replicas: 1 replica in place of 2"},
		{"{replicas: 4, stages: [[layers.0], [layers.1]]}", "cpu:2", "partition.replicas: 2 replicas in place of 4"},
		{"{stages: [[layers.0], [layers.1]], pin: {layers.1: 'cpu:3'}}", "cpu:2", "partition.pin: cpu:3 is not there"},
		{"{replicas: 2, pin: {layers.1: 'cpu:1'}}", "cpu:2", "partition.pin: cpu:1 is of another replica now"},
	} {
		kept := []byte(text + "partition: " + c.partition + "\n")
		for i, set := range [][]string{nil, {"devices.use=" + c.fewer}, nil, {"partition.costs=flops"}, {"devices.use=cpu:4", "partition.schedule=gpipe"}} {
			cfg, err := configs.Parse("config.yaml", kept, configs.Overlay{Set: set})
			if err != nil {
				t.Fatal(err)
			}
			r, err := berth.Open(t.Context(), cfg, berth.OpenOptions{})
			if err != nil {
				t.Fatalf("%s, opened with %q: %v", c.partition, set, err)
			}
			few := i > 0 && i < 4
			if told := strings.Join(r.Notes(), "\n"); strings.Contains(told, c.note) != few {
				t.Errorf("%s, opened with %q, tells %q", c.partition, set, told)
			}
			kept, err = r.Config.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
