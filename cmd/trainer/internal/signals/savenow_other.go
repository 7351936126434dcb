//go:build !unix

package signals

import "os"

var saveSignal os.Signal // the system has none for it
