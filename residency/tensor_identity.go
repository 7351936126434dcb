package residency

import (
	"fmt"
	"strconv"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Key identifies a tensor instance. Net is empty for variables, which all graphs
// of a tenant share. Tenant is the name of the tenant. Range is the part of Value that
// the tensor has, "[0:65536]"; empty for the whole.
type Key struct {
	Tenant, Net, Value, Range string
	Microbatch, Replica       int
}

// String is "tenant:net/value#2@1" for microbatch 2 of replica 1. It leaves out
// names that are empty, and numbers that are zero.
func (k Key) String() string {
	s := k.Value + k.Range
	if k.Net != "" {
		s = k.Net + "/" + s
	}
	if k.Tenant != "" {
		s = k.Tenant + ":" + s
	}
	if k.Microbatch != 0 {
		s += "#" + strconv.Itoa(k.Microbatch)
	}
	if k.Replica != 0 {
		s += "@" + strconv.Itoa(k.Replica)
	}
	return s
}

// identity is the part of a Tensor that never changes.
type identity struct {
	key   Key
	name  string // the key as text
	meta  shape.Meta
	usage device.Usage
	bytes int64
}

// Key identifies the tensor.
func (x *identity) Key() Key { return x.key }

// Meta is its element type and shape.
func (x *identity) Meta() shape.Meta { return x.meta }

// Usage is the usage that its memory counts as.
func (x *identity) Usage() device.Usage { return x.usage }

// Name is its key as text.
func (x *identity) Name() string { return x.name }

// String is the name with metadata and usage.
func (x *identity) String() string { return fmt.Sprintf("%s %v (%v)", x.name, x.meta, x.usage) }
