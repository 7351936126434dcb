package costs

import "fmt"

// The sizes of the copies that are timed, in bytes: the time of others follows.
const (
	SmallCopy = 64
	LargeCopy = 4 << 20
)

// CopyKey is the key of a copy from one device to another, which Between describes: from
// the end of the launch that it waits for until the next one begins.
func CopyKey(between string, bytes int64) Key {
	return Key{Work: fmt.Sprintf("copy %d", bytes), On: between}
}

// CopySeconds is the time from the end of a launch until another device can begin one
// that reads so many bytes of it. ok is false if copies between them were not timed.
func (f *File) CopySeconds(between string, bytes int64) (seconds float64, ok bool) {
	return f.line(bytes, func(size int64) Key { return CopyKey(between, size) })
}

// HostKey is the key of a copy from the host to a device that On describes, or out of it to
// the host.
func HostKey(on string, bytes int64, out bool) Key {
	if out {
		return Key{Work: fmt.Sprintf("copy-out %d", bytes), On: on}
	}
	return Key{Work: fmt.Sprintf("copy-in %d", bytes), On: on}
}

// HostSeconds is the time of a copy of so many bytes from the host to a device, or out of
// it to the host. ok is false if such copies were not timed.
func (f *File) HostSeconds(on string, bytes int64, out bool) (seconds float64, ok bool) {
	return f.line(bytes, func(size int64) Key { return HostKey(on, size, out) })
}

// line is the time of so many bytes on the line through those of a small and a large copy.
func (f *File) line(bytes int64, key func(size int64) Key) (seconds float64, ok bool) {
	small, ok1 := f.Seconds(key(SmallCopy))
	large, ok2 := f.Seconds(key(LargeCopy))
	perByte := max(0, large-small) / (LargeCopy - SmallCopy)
	return small + perByte*float64(bytes), ok1 && ok2
}
