package cpu

// pause tells the core that this is a waiting loop: it saves power and leaves
// the other thread of the core more room.
//
//go:noescape
func pause()
