package socket

import "github.com/berth-ml/berth/internal/build"

// Version is the version of Berth in this program, for [ThisProgram]: that of trainer up where both were built from
// the same release.
func Version() string { return build.Revision() }
