// Package access compares what the requests of an HTTP server name with what it knows: its host, and its token. trainer serve and
// trainer ui decide by it who may ask.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// Host is the name or address in a Host header, without its port, as [Name] writes it.
func Host(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return Name(host)
	}
	return Name(header)
}

// Name is a name in the one form that names are compared in: in small letters, without the brackets of an IPv6 address, and without
// the dot at the end of a name from the root.
func Name(name string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), "."))
}

// Token is what a request has as Authorization: Bearer TOKEN. The zero token is none, which no request has.
type Token struct {
	sum   [32]byte // SHA-256
	given bool
}

// NewToken is a token of a text; the zero token for "".
func NewToken(text string) Token { return Token{sha256.Sum256([]byte(text)), text != ""} }

// Has reports whether a request has the token, in a time that does not depend on how much of it is right. bearer is
// whether it has any.
func (t Token) Has(r *http.Request) (ok, bearer bool) {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(given))
	return bearer && t.given && subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1, bearer
}
