package device

// HostView is a part of a host buffer, such as one microbatch's rows of a
// batch. Devices copy from and to it as with a host buffer; meanwhile they keep
// the whole buffer. Freeing a view does nothing: the owner of the buffer frees
// the buffer.
type HostView struct {
	of   HostBuffer
	part []byte
}

// NewHostView is the view of n bytes of a buffer, from an offset on.
func NewHostView(of HostBuffer, from, n int64) *HostView {
	return &HostView{of, of.Bytes()[from : from+n]}
}

// Bytes is the part.
func (v *HostView) Bytes() []byte { return v.part }

// Free does nothing.
func (v *HostView) Free() error { return nil }

// Whole is the host buffer that h is a view of; h itself if it is no view.
func Whole(h HostBuffer) HostBuffer {
	if v, ok := h.(*HostView); ok {
		return v.of
	}
	return h
}
