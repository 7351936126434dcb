package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/runtest"
)

// picky is a cpu device under another name that does not compute tanh.
type picky struct {
	device.Device
	id device.ID
}

func (d picky) ID() device.ID         { return d.id }
func (d picky) Unwrap() device.Device { return d.Device }

func (d picky) Spec() device.Spec {
	s := d.Device.Spec()
	s.ID, s.Kind = d.id, "picky"
	return s
}

func (d picky) Supports(n *graph.Node) error {
	if n.Op.Kind() == "tanh" {
		return fmt.Errorf("%w: no tanh here", device.ErrUnsupported)
	}
	return d.Device.Supports(n)
}

func init() {
	device.Register("picky", func(o device.OpenOptions) ([]device.Device, error) {
		list, err := device.Open("cpu", o)
		for i, d := range list {
			list[i] = picky{d, device.ID(fmt.Sprintf("picky:%d", i))}
		}
		return list, err
	})
}

// Clusters tells which ops other devices refuse, and of each op why it is in no cluster.
func TestClusters(t *testing.T) {
	r := runtest.Open(t, "data: digits\nmodel: {preset: mlp, hidden: [32, 32], activation: tanh}\n", "devices.use=picky,cpu", "partition.costs=flops", "devices.memory=16MiB")
	refused, kept := 0, 0
	list, err := r.Clusters()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		kept += len(x.Cuts.Kept())
		for _, op := range x.Refused {
			if refused++; op.Node.Op.Kind() != "tanh" || op.Device != "picky:0" || x.Device != "cpu:0" {
				t.Errorf("%s: %+v", x.Segment.Name, op)
			}
		}
		if text := x.String(); len(x.Refused) > 0 && !strings.Contains(text, "\nrefused by other devices\n        tanh by picky:0: not supported by this device: no tanh here\n") {
			t.Errorf("got %s", text)
		}
	}
	if refused == 0 || kept == 0 {
		t.Errorf("%d ops are refused, and %d in no cluster", refused, kept)
	}
}
