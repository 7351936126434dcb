package berth

import (
	_ "github.com/berth-ml/berth/engine/device/cpu"    // registers itself
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // registers itself
	_ "github.com/berth-ml/berth/engine/device/null"   // registers itself

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/residency"
)

// Devices are opened devices on which several models are trained and used at once,
// each from a goroutine of its own. Their weights share the memory: those of a
// model that does nothing give way to another's, and come back. Each model ends
// with the weights that it has alone, and what fails in one fails no other one. Models with
// adapters beside the same frozen weights have those there once: see [Training.Shares]. The
// methods are safe for concurrent use.
//
// Of the section devices of a run's config, memory alone counts: that much of each device its
// plan counts on; without it, the whole device. The other keys, such as use, each, threads,
// host_memory and timeout, are those of OpenDevices. [Run.Train] and the other calls wait
// until the devices have the floor of the run's plan free in addition to those of the other calls:
// of the calls that wait, the first one goes on first. ctx ends the waiting. Train, Eval, Predict and Generate take turns with each
// other where their floors do not fit together; a [Service] and a [Training] keep theirs, and are let in where each of those can
// still have its turn. A run has one call at a time; a second one fails with ErrInUse. [Run.Suspend] gives the floor of a
// call to others for a while.
//
// A device that is lost is lost for all runs that use it, and runs to be opened plan
// with those that are left. A run goes on without it if devices.on_device_loss is
// replan in its config, or in that of OpenDevices. A device one of whose operations
// failed goes on with the other runs. The methods are those of [session.Pool].
type Devices = session.Pool

// DevicesOptions are the options of OpenDevices.
type DevicesOptions = session.PoolOptions

// OpenDevices opens the devices of a config, for several runs. A zero field means the
// key's default: configs.Devices{Use: "cpu:2"} is whole. The caller closes the devices
// after the runs.
func OpenDevices(c configs.Devices, o DevicesOptions) (*Devices, error) {
	return session.OpenPool(c, o)
}

// Memory says who has the memory of devices at one instant, by run and by the usage of tensors, and what is in host
// memory, in bytes. [Devices] and a [Run] have a method of this name.
type Memory = residency.Memory

// DeviceMemory is the memory of one of them.
type DeviceMemory = residency.DeviceMemory

// TenantMemory is what a run has on a device.
type TenantMemory = residency.TenantMemory

// MemoryMoves are bytes that moved between the host and a device.
type MemoryMoves = residency.Moves
