package session

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/partition"
)

// refused adds its place in the config to an error of opening the devices.
func refused(c *configs.Config, err error) error {
	if _, told := errors.AsType[*crew.Verdict](err); told {
		return err
	}
	key := "devices.memory"
	if len(c.Devices.Each) > 0 {
		key = "devices.each"
	}
	if errors.Is(err, errs.ErrClosed) || errors.Is(err, device.ErrLost) { // shared devices, which their owner closed, or that are lost
		return err
	}
	d := c.Devices
	if errors.Is(err, device.ErrBudget) && len(d.Each) == 0 && d.Memory == (configs.Memory{}) {
		return err // no place of the config is wrong
	}
	if errors.Is(err, device.ErrBudget) {
		return configs.At(c.Where(key), fmt.Errorf("%s: %w", key, err))
	}
	where := d.Pos
	if c.Given("devices.use") { // maybe by a flag, and the rest by the file
		where = c.Where("devices.use")
	}
	return configs.At(where, fmt.Errorf("devices: %w", err))
}

// Placed adds its place in the config to a mistake that planning found.
func (s *Session) Placed(err error) error {
	c := s.Config
	if _, known := errors.AsType[*configs.PlacedError](err); known {
		return err
	}
	pins, pinned := errors.AsType[*partition.PinError](err)
	switch {
	case pinned:
		return configs.At(c.Where("partition.pin."+pins.Name), fmt.Errorf("partition.pin: %w", pins))
	case errors.Is(err, models.ErrAdapt):
		return configs.At(c.Where("adapt.lora.targets"), err)
	case errors.Is(err, optim.ErrSpec):
		return configs.At(c.Where("optimizer.freeze"), err) // the config knows its other keys
	case errors.Is(err, schedule.ErrInvalid):
		key := "train.microbatches"
		if order, _ := c.Partition.Order(); order != nil {
			key = "partition.schedule"
		}
		return configs.At(c.Where(key), fmt.Errorf("%s: %w", key, err))
	case errors.Is(err, partition.ErrReplicas):
		return configs.At(c.Where("partition.replicas"), fmt.Errorf("partition.replicas: %w", err))
	case errors.Is(err, partition.ErrStages):
		return configs.At(c.Where("partition.stages"), fmt.Errorf("partition: %w", err))
	case errors.Is(err, partition.ErrMemory):
		dev := 0
		e, plain := err.(*partition.MemoryError)
		if plain {
			e = e.Least()
			err = e
		}
		if plain || errors.As(err, &e) {
			dev = e.Device
		}
		from := memoryFrom(c, s.at[dev])
		if dev < len(s.percentOf) && e != nil {
			from = enoughOf(s.percentOf[dev], e.Needed()) + from
		}
		return fmt.Errorf("%w (%s)", err, from)
	}
	return err
}
