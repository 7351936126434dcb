//go:build !unix

package socket

// ownedAlone trusts the system's rights on the user's folder.
func ownedAlone(string) error { return nil }
