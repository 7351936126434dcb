package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// access says who may ask. Pages of other sites are kept out by the names that a browser
// sends: that of the server that it believes to ask, and that of the page's site.
type access struct {
	hosts []string // names of OpenOptions.Hosts, in small letters
	token string   // of POST /reload
}

// newAccess is that of a server.
func newAccess(o *OpenOptions) access {
	a := access{token: o.ReloadToken}
	for _, h := range o.Hosts {
		a.hosts = append(a.hosts, plainHost(h))
	}
	return a
}

// check refuses requests to other names, and those of pages of other sites.
func (a access) check(r *http.Request) error {
	if host := hostOf(r.Host); !a.known(host) && !ofConnection(r, host) {
		return forbidden(fmt.Sprintf("the request is for the host %s, and this server answers for its addresses, localhost and the names of --allow-host", short(host)))
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	from, err := url.Parse(origin)
	if err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) && !slices.Contains(a.hosts, strings.ToLower(from.Host)) {
		return forbidden(fmt.Sprintf("the request is from a page of %s: only pages of this server's own address, or of a name of --allow-host, may ask", short(origin)))
	}
	return nil
}

// known reports whether a host is one of the server's names. Without one, as in HTTP/1.0, no
// browser asks.
func (a access) known(host string) bool {
	return host == "" || host == "localhost" || slices.Contains(a.hosts, host)
}

// ofConnection reports whether a host is the address that the client has connected to, or one
// that is only known on a machine, from where connections may be handed on.
func ofConnection(r *http.Request, host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ip = ip.Unmap().WithZone(""); ip.IsLoopback() || ip.IsUnspecified() || !ok {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap().WithZone("") == ip
}

// hostOf is the name in a Host header, without its port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return plainHost(host)
	}
	return plainHost(header)
}

// plainHost is a name in the one form that names are compared in.
func plainHost(name string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), "."))
}

// mayReload refuses POST /reload of another machine without the token.
func (a access) mayReload(r *http.Request) error {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if a.token != "" && bearer {
		one, other := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(a.token))
		if subtle.ConstantTimeCompare(one[:], other[:]) == 1 {
			return nil
		}
	}
	if !bearer && fromThisMachine(r) {
		return nil
	}
	return forbidden("only programs of this machine may ask for a reload, and others with the token of --reload-token (Authorization: Bearer TOKEN)")
}

// fromThisMachine reports whether the client is a program of this machine, and no proxy.
func fromThisMachine(r *http.Request) bool {
	for _, of := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(of) != "" {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
