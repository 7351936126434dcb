package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-ml/berth/configs"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	_ "github.com/berth-ml/berth/engine/device/null"
	_ "github.com/berth-ml/berth/engine/models"
	_ "github.com/berth-ml/berth/engine/optim"
)

// A list of devices opens in its order, each with its own threads and memory.
func TestDeviceList(t *testing.T) {
	for devices, want := range map[string][]string{
		"{use: cpu:2, threads: 2, memory: 8MiB}": {"cpu:0 1 8", "cpu:1 1 8"},
		"[{use: cpu, threads: 3, memory: 64MiB}, {use: 'null', memory: 1MiB}, {use: cpu:2, threads: 3, memory: 32MiB}]": {
			"cpu:0 3 64", "null:0 1 1", "cpu:1 2 32", "cpu:2 1 32"},
		"{use: 'null:1,cpu:2', threads: 5, memory: 8MiB}": {"null:0 1 8", "cpu:0 3 8", "cpu:1 2 8"},
	} {
		c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\ndevices: "+devices+"\n"), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Config: c}, func(*Session) error { return nil })
		if err != nil {
			t.Fatalf("%s: %v", devices, err)
		}
		var got []string
		for _, d := range s.Devices {
			s := d.Spec()
			got = append(got, fmt.Sprintf("%s %d %d", s.ID, s.Threads, s.MemoryBytes>>20))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s opens %v, expected %v", devices, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
