package configs

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// deviceSection is an entry of devices.each.
var deviceSection = &section{
	doc:       "An entry of `devices.each`. Devices of a kind are numbered in the order of the list: the first cpu device is `cpu:0`. `- cpu` is short for `- {use: cpu}`.",
	pos:       posOf(func(e *DeviceEntry) *Pos { return &e.Pos }),
	shorthand: "use",
	listed:    true,
	keys: []*key{
		{name: "use", kind: deviceKind, at: at(func(e *DeviceEntry) *string { return &e.Use }), required: true,
			doc: "the entry's devices"},
		{name: "threads", kind: whole{0, MaxThreads}, at: at(func(e *DeviceEntry) *int { return &e.Threads }), def: "0",
			doc: "worker threads of the entry's devices together; 0: an equal part of the cores that other entries leave"},
		{name: "memory", kind: memory{}, at: at(func(e *DeviceEntry) *Memory { return &e.Memory }), def: "0",
			doc: "memory that each of the entry's devices may use; 0: an equal part of what other entries leave"},
	},
}

// deviceList is a list of devices.
type deviceList struct{}

func (deviceList) expect() string {
	return "a list of at least one device, such as [{use: cpu, memory: 2GiB}, {use: cpu, memory: 512MiB}]"
}

func (l deviceList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]DeviceEntry, len(n.Content))
	for i, c := range n.Content {
		deviceSection.decode(d, c, fmt.Sprintf("%s[%d]", path, i), &out[i])
	}
	*dst.(*[]DeviceEntry) = out
}

func (deviceList) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	entries := *src.(*[]DeviceEntry)
	for i := range entries {
		out.Content = append(out.Content, deviceSection.encode(&entries[i], keep))
	}
	return out
}
