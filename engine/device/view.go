package device

// HostView is a part of a host buffer, such as one microbatch's rows of a
// batch. Devices copy from and to it like from a buffer of its own, and keep
// the whole buffer while they do. Freeing a view does nothing: who owns the
// buffer frees that.
type HostView struct {
	of   HostBuffer
	part []byte
}

// NewHostView is n bytes of a buffer from an offset on.
func NewHostView(of HostBuffer, from, n int64) *HostView {
	return &HostView{of, of.Bytes()[from : from+n]}
}

// Bytes is the part.
func (v *HostView) Bytes() []byte { return v.part }

// Free does nothing.
func (v *HostView) Free() error { return nil }

// Whole is the buffer that h is, or is a part of.
func Whole(h HostBuffer) HostBuffer {
	if v, ok := h.(*HostView); ok {
		return v.of
	}
	return h
}
