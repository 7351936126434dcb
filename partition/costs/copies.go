package costs

import "fmt"

// The sizes of the copies that are timed, in bytes: the time of others follows.
const (
	SmallCopy = 64
	LargeCopy = 4 << 20
)

// CopyKey is the key of a copy to a device, which On describes, from another of its
// kind: from the end of the launch that it waits for until the next one begins.
func CopyKey(on string, bytes int64) Key { return Key{Work: fmt.Sprintf("copy %d", bytes), On: on} }

// CopySeconds is the time from the end of a launch until another device can begin one
// that reads so many bytes of it. ok is false if copies to the device were not timed.
func (f *File) CopySeconds(on string, bytes int64) (seconds float64, ok bool) {
	small, ok1 := f.Seconds(CopyKey(on, SmallCopy))
	large, ok2 := f.Seconds(CopyKey(on, LargeCopy))
	perByte := max(0, large-small) / (LargeCopy - SmallCopy)
	return small + perByte*float64(bytes), ok1 && ok2
}
