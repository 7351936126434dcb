package saver

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
)

// The size of the area where memory is short, in bytes.
const (
	defaultStaging = 256 << 20 // at most, unless the config asks for more
	leastStaging   = 1 << 20
)

// Bound is the most host memory that a save may take, in bytes; 0: as much as
// the whole state.
type Bound int64

// BoundOf decides for a state of so many bytes. asked is the config's bound in
// bytes, of which 0 leaves the choice to this function; whole asks for all. memory
// is the bound on all host memory in bytes, of which saves may take a part; 0:
// what is free.
func BoundOf(asked int64, whole bool, state, memory int64) Bound {
	if whole {
		return 0
	}
	if asked > 0 {
		return Bound(asked)
	}
	if memory == 0 {
		free, err := host.Available()
		if err != nil {
			return defaultStaging
		}
		memory = max(free, 4*leastStaging)
	}
	// There must be room on the devices, too, for as much and for what
	// training adds to it.
	if state <= memory/4 {
		return 0
	}
	return Bound(min(defaultStaging, memory/4))
}

// TxBytes is the size of a checkpoint file's transactions, of which saving holds
// up to three; 0: the checkpoint package's own.
func (b Bound) TxBytes() int64 {
	if b == 0 {
		return 0
	}
	return max(1, int64(b)/8)
}

// ChunkBytes is the size of a checkpoint's chunks: small enough for the
// transactions, and such that no element is cut; 0: the checkpoint package's
// own.
func (b Bound) ChunkBytes() int {
	if b == 0 {
		return 0
	}
	return int(min(4<<20, b.TxBytes()&^63))
}

// Held is the part of the area that saving itself takes, in bytes.
func (b Bound) Held() int64 { return 3 * b.TxBytes() }

// room is the part of the area that saving itself does not take.
func (b Bound) room() int64 { return int64(b) - b.Held() }

// Takes is the host memory that a save of variables takes, in bytes: the area,
// which is all of them if it has no bound, or more where the largest one alone does,
// since a device copies it whole.
func (b Bound) Takes(vars []*graph.Value) (bytes int64) {
	vars = Kept(vars)
	if b > 0 {
		return max(int64(b), b.Held()+largest(vars).Meta.Bytes())
	}
	for _, v := range vars {
		bytes += v.Meta.Bytes()
	}
	return bytes
}

func largest(vars []*graph.Value) *graph.Value {
	return slices.MaxFunc(vars, func(x, y *graph.Value) int { return cmp.Compare(x.Meta.Bytes(), y.Meta.Bytes()) })
}

// Exceeded says that one variable alone takes more than the area; "" where none
// does.
func (b Bound) Exceeded(vars []*graph.Value) string {
	if b == 0 || len(vars) == 0 {
		return ""
	}
	v, takes := largest(Kept(vars)), b.Takes(vars)
	if takes <= int64(b) {
		return ""
	}
	mib := func(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
	return fmt.Sprintf("a save takes up to %d MiB of host memory and not checkpoint.staging's %d, since %s is copied whole", mib(takes), mib(int64(b)), v.Name)
}
