package paging

// Rule says which objects leave first.
type Rule string

// The rules. The zero Rule is NextUse.
const (
	NextUse Rule = "next-use" // those whose memory is then free for the most launches per copy: see [Take]
	LRU     Rule = "lru"      // those that were used longest ago: see [Oldest]
)

// Policy is how to make room in a device's memory.
type Policy struct {
	Rule  Rule
	Ahead int   // launches whose loads are queued before they are due
	Spare int64 // bytes to keep free, where giving up objects can
}
