// Package device adds a kind of device to a trainer, "toy": a card with memory that the host
// cannot address, and a processor that computes with the generic kernels. Package streams
// brings what is the same for every kind: buffers within the budget, streams, events,
// launches, failures. What is left:
//
//   - toy.go opens the cards and describes them
//   - card.go is the card's memory, with the copies in, out and within
//   - program.go runs a plan on the card, step by step
//
// "Adding a kind" in docs/devices.md walks through them.
//
//	go run ./examples/trainer train digits --devices toy
//	go run ./examples/trainer train digits --devices cpu,toy
package device

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
)

// kind is the name of the kind: --devices toy:2 opens two.
const kind = "toy"

func init() {
	device.Register(kind, open)
	device.RegisterKernels(kind, func() device.KernelList {
		return device.KernelList{Names: kernels.Names(), About: "those of cpu's generic level"}
	})
}

// What a card states of itself. The speeds are rough: they balance stages among devices of
// one kind. Devices of several kinds are timed.
const (
	cardBytes     = 256 << 20 // of memory
	cardFlops     = 2e9       // a second
	linkBandwidth = 5e9       // bytes a second
)

// open opens o.Count cards.
func open(o device.OpenOptions) (cards []device.Device, err error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	for i := range o.Count {
		d, err := openCard(i, o)
		if err != nil {
			errs := []error{err}
			for _, d := range cards {
				errs = append(errs, d.Close())
			}
			return nil, errors.Join(errs...)
		}
		cards = append(cards, d)
	}
	return cards, nil
}

// openCard opens one card.
func openCard(number int, o device.OpenOptions) (device.Device, error) {
	id, budget := device.ID(fmt.Sprintf("%s%s:%d", o.Prefix, kind, number)), budgetOf(number, o)
	if budget > cardBytes {
		return nil, fmt.Errorf("%s: %w: %d bytes, but the card has %d: lower it", id, device.ErrBudget, budget, cardBytes)
	}
	var c *card
	d, err := streams.New(streams.Config{
		Spec: device.Spec{
			ID:             id,
			Kind:           kind,
			Description:    "a card that the host pretends to have",
			Numerics:       target.ISA.String(),
			Threads:        1,
			MemoryBytes:    budget,
			FlopsPerSecond: cardFlops,
			LinkBytesPerS:  linkBandwidth,
			PeerCopy:       true,
		},
		Options: o,
		Host:    host.Mappings{},
		Reserve: func(bytes int64) (_ streams.Memory, err error) {
			c, err = newCard(bytes)
			return c, err
		},
		Bind: func(p *planner.Plan, co device.CompileOptions) (streams.Program, error) {
			return bind(c, p, co.CheckFinite, streams.TimesOf(o))
		},
		Supports: supports,
	})
	if err != nil {
		return nil, err // not a nil *streams.Device as a device.Device
	}
	return d, nil
}

// budgetOf is the memory in bytes that a card may use. Cards share none.
func budgetOf(number int, o device.OpenOptions) int64 {
	var own int64
	if o.Each != nil {
		own = o.Each[number].MemoryBytes
	}
	return cmp.Or(own, o.MemoryBytes, cardBytes)
}
