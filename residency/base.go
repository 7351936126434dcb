package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/ledger"
)

// BaseOptions describes tensors that nobody writes and several tenants read, such as the weights
// beside which each of several trainings has an adapter. Tenants whose options are equal, and that use
// the same devices, have these tensors together.
type BaseOptions struct {
	Name    string // begins the tensors' names: "base 1f0c"
	ID      string // of the contents: equal ones have the same
	Tensors []BaseTensor
}

// BaseTensor is a tensor of a base.
type BaseTensor struct {
	Key     Key // without Tenant
	Meta    shape.Meta
	Devices []int // on which tasks read it, by index
}

// base is tensors that several tenants read. They are the tensors of one more tenant, its owner, which
// is there as long as a user is. While a user is not suspended, its floors have room for all
// of them on the devices that they are for, and none leaves those. Otherwise they leave as those of
// suspended tenants do. The manager owns it.
type base struct {
	BaseOptions
	key     string
	devices []int             // that the users use
	bytes   []int64           // per device
	common  *admission.Common // bytes, as its users reserve them
	opening sync.Mutex        // held while the owner is made; taken before the manager's lock
	turn    chan struct{}     // has a value while nobody fills it

	// Under the manager's lock:
	claims int // tenants that have it, or wait in Join
	users  []*Tenant
	awake  atomic.Int32 // users that are not suspended; read without the lock, too
	owner  *Tenant      // nil: there are no users
	list   []*Tensor
	filler *Tenant // nil: nobody fills it
}

// baseBytes is the memory that a base takes of each device.
func (m *Manager) baseBytes(o *BaseOptions) []int64 {
	bytes := make([]int64, len(m.devs))
	if o != nil {
		for _, t := range o.Tensors {
			for _, i := range t.Devices {
				bytes[i] += m.devs[i].takes(t.Meta.Bytes())
			}
		}
	}
	return bytes
}

// claimBase finds the base that a tenant is to have, or makes it; nil if it has none. unclaimBase
// undoes it.
func (m *Manager) claimBase(o *TenantOptions) *base {
	if o.Base == nil {
		return nil
	}
	key := fmt.Sprintln(o.Devices, *o.Base)
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bases[key]
	if b == nil {
		bytes := m.baseBytes(o.Base)
		b = &base{
			BaseOptions: *o.Base, key: key, devices: o.Devices, bytes: bytes,
			common: admission.NewCommon(bytes), turn: make(chan struct{}, 1),
		}
		b.turn <- struct{}{}
		m.bases[key] = b
	}
	b.claims++
	return b
}

func (m *Manager) unclaimBase(b *base) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.unclaim(m)
}

// unclaim is unclaimBase with the lock held.
func (b *base) unclaim(m *Manager) {
	if b == nil {
		return
	}
	if b.claims--; b.claims == 0 {
		delete(m.bases, b.key)
	}
}

// floors are what the users of b reserve together; nil without a base.
func (b *base) floors() *admission.Common {
	if b == nil {
		return nil
	}
	return b.common
}

// attach makes u, which is not a tenant yet, a user of a base. The first user makes the owner.
func (m *Manager) attach(u *Tenant, b *base) error {
	if b == nil {
		return nil
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	m.mu.Lock()
	there := b.owner != nil
	if there {
		b.add(u)
	}
	m.mu.Unlock()
	if there {
		return nil
	}
	owner, list, err := m.newOwner(b)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	owner.keeps, b.owner, b.list = b, owner, list
	m.tenants = append(m.tenants, owner)
	m.show()
	b.add(u)
	return nil
}

// newOwner makes the owner of a base, and its tensors.
func (m *Manager) newOwner(b *base) (owner *Tenant, list []*Tensor, err error) {
	name := m.claimNameLike(b.Name)
	if owner, err = m.newTenant(TenantOptions{Name: name, Devices: b.devices, Peaks: b.bytes}); err != nil {
		m.freeName(name)
		return nil, nil, err
	}
	for _, x := range b.Tensors {
		t, err := owner.Declare(x.Key, x.Meta, device.Weight)
		if err != nil {
			m.freeName(name)
			return nil, nil, errors.Join(err, owner.endStreams())
		}
		list = append(list, t)
	}
	return owner, list, nil
}

// claimNameLike is claimName with a number behind the name, if that is another's.
func (m *Manager) claimNameLike(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	claimed := name
	for n := 2; m.names[claimed]; n++ {
		claimed = fmt.Sprintf("%s (%d)", name, n)
	}
	m.names[claimed] = true
	return claimed
}

// add adds a user, whose floors are reserved.
func (b *base) add(u *Tenant) {
	u.base, b.users = b, append(b.users, u)
	b.wake()
}

// wake and rest count the users that are not suspended.
func (b *base) wake() {
	if b == nil {
		return
	}
	if b.awake.Add(1) == 1 {
		b.pin(true)
	}
}

func (b *base) rest() {
	if b == nil {
		return
	}
	if b.awake.Add(-1) == 0 {
		b.pin(false)
	}
}

// pin has the tensors stay where they are for, or lets them leave.
func (b *base) pin(stay bool) {
	for i, t := range b.list {
		for _, d := range b.Tensors[i].Devices {
			t.copies[d].pinned = stay
			b.owner.devs[d].rank(t)
		}
	}
}

// detach undoes attach. It returns the owner if u was the last user: the caller dismisses it, without
// the lock.
func (m *Manager) detach(u *Tenant) (over *Tenant) {
	b := u.base
	if b == nil {
		return nil
	}
	if !u.suspended.Load() {
		b.rest()
	}
	b.users = slices.DeleteFunc(b.users, func(o *Tenant) bool { return o == u })
	if len(b.users) == 0 {
		over, b.owner, b.list = b.owner, nil, nil
	}
	b.unclaim(m)
	return over
}

// FillBase calls fill, which gives the tenant's tensors their contents, and those of its base that are not [Tensor.Filled].
// While another tenant of the base is about to do that, it waits. The ledger of the tenant that fills the base counts
// its copies. Without a base, it calls fill and no more.
func (u *Tenant) FillBase(ctx context.Context, fill func() error) error {
	b := u.base
	if b == nil {
		return fill()
	}
	select {
	case <-b.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !u.beginFill() {
		b.turn <- struct{}{}
		return fill()
	}
	defer func() {
		u.endFill()
		b.turn <- struct{}{}
	}()
	return fill()
}

// beginFill lets the tenant fill its base, unless that has all contents.
func (u *Tenant) beginFill() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(u.base.list, lacking) {
		return false
	}
	u.base.filler = u
	return true
}

// endFill undoes beginFill.
func (u *Tenant) endFill() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.base.filler = nil
}

// lacking reports whether a tensor has no contents, or has lost them.
func lacking(t *Tensor) bool { return t.truth == nowhere || t.failure() != nil || t.lost() != nil }

// Filled reports whether the tensor is of a base, and has contents.
func (t *Tensor) Filled() bool {
	t.tenant.mu.Lock()
	defer t.tenant.mu.Unlock()
	return t.base() != nil && !lacking(t)
}

// base is the base that the tensor is of; nil for one of a tenant's own.
func (t *Tensor) base() *base { return t.tenant.keeps }

// changeable refuses new contents for a tensor of a base, unless a tenant fills that.
func (t *Tensor) changeable() error {
	if b := t.base(); b != nil && b.filler == nil {
		return fmt.Errorf("%w: %s has users that read it alone", ErrShared, b.owner.opt.Name)
	}
	return nil
}

// ledger counts what moves of a tensor: of a base, while a tenant fills it, that one's.
func (t *Tensor) ledger() *ledger.Ledger {
	if b := t.base(); b != nil && b.filler != nil {
		return b.filler.ledger
	}
	return t.tenant.ledger
}

// reads reports whether a need is of the tenant's base.
func (u *Tenant) reads(n *Need) bool {
	return u.base != nil && n.Tensor.tenant == u.base.owner && !n.Mode.writes()
}

// ofBase is the tensor of the tenant's base with a key, which has no tenant; nil if there is none.
func (u *Tenant) ofBase(k Key) *Tensor {
	if u.base == nil || u.gone {
		return nil
	}
	k.Tenant = u.base.owner.opt.Name
	return u.base.owner.tensors[k]
}

// BaseMemory is the memory that the tenant's base takes of a device, by index.
func (u *Tenant) BaseMemory(at int) (s device.Stats) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.base != nil && !u.gone {
		s = u.base.owner.on[at].memory
	}
	return s
}

// BaseBytes is the memory that the tensors of the tenant's base take of a device where they stay, by index. They
// may not be there yet.
func (u *Tenant) BaseBytes(at int) int64 {
	if u.base == nil {
		return 0
	}
	return u.base.bytes[at]
}

// BaseUsers are the names of the other tenants that have the tenant's base, in the order in which they came.
func (u *Tenant) BaseUsers() (names []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.base == nil {
		return nil
	}
	for _, o := range u.base.users {
		if o != u {
			names = append(names, o.opt.Name)
		}
	}
	return names
}
