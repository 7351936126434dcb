//go:build !unix

package signals

import "os"

// The system has none for these.
var saveSignal, user2Signal os.Signal
