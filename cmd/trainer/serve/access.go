package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/berth-ml/berth/cmd/trainer/internal/access"
)

// rules say who may ask. Pages of other sites are kept out by the names that a browser
// sends: that of the server that it believes to ask, and that of the page's site.
type rules struct {
	hosts []string     // names of OpenOptions.Hosts, as access.Name has them
	token access.Token // of POST /reload
}

// newRules are those of a server.
func newRules(o *OpenOptions) rules {
	a := rules{token: access.NewToken(o.ReloadToken)}
	for _, h := range o.Hosts {
		a.hosts = append(a.hosts, access.Name(h))
	}
	return a
}

// check refuses requests to other names, and those of pages of other sites.
func (a rules) check(r *http.Request) error {
	if host := access.Host(r.Host); !a.known(host) && !ofConnection(r, host) {
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
func (a rules) known(host string) bool {
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

// mayReload refuses POST /reload of another machine without the token.
func (a rules) mayReload(r *http.Request) error {
	ok, bearer := a.token.Has(r)
	if ok {
		return nil
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
