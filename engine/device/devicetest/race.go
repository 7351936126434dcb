//go:build race

package devicetest

// dropsPooled is whether a sync.Pool drops some of what it gets back, as under the race
// detector. Calls of a driver's library then allocate now and then.
const dropsPooled = true
