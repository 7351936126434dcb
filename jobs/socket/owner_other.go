//go:build !linux

package socket

import "net"

// sameUser trusts the modes of the socket and its folder, which are checked.
func sameUser(net.Conn) bool { return true }
