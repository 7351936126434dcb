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
	small, ok1 := f.Seconds(CopyKey(between, SmallCopy))
	large, ok2 := f.Seconds(CopyKey(between, LargeCopy))
	perByte := max(0, large-small) / (LargeCopy - SmallCopy)
	return small + perByte*float64(bytes), ok1 && ok2
}
