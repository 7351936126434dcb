// Package fault makes chosen operations of devices hang or fail, for tests and
// drills. It wraps devices of any kind.
//
// The type to know is [Fault]; [Wrap] is the way in. For other mishaps, [Intercept]
// asks a [Hook] before each operation.
package fault
