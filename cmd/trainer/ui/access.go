package ui

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/berth-ml/berth/cmd/trainer/internal/access"
)

// rules say who may ask.
type rules struct {
	host  string // the name that the server listens at, as access.Name has it; "" if that is an address
	token access.Token
}

// site refuses requests to other names, and those of pages of other sites. A name that somebody makes lead to 127.0.0.1
// is another name, so his page gets nothing from here.
func (a rules) site(r *http.Request) *problem {
	if host := access.Host(r.Host); !a.known(host) {
		return refused(http.StatusForbidden, "the request is for the host %s: this server answers for addresses, for localhost, and for the name in --address", short(host))
	}
	// A link on another site, or the file that --open makes, may open the page: it shows nothing without the token.
	opens := r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if from := r.Header.Get("Sec-Fetch-Site"); from != "" && from != "same-origin" && from != "none" && !opens {
		return refused(http.StatusForbidden, "the request is from a page of another site: only this page may ask")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		from, err := url.Parse(origin)
		if err != nil || from.Scheme != "http" || !strings.EqualFold(from.Host, r.Host) {
			return refused(http.StatusForbidden, "the request is from a page of %s: only this page may ask", short(origin))
		}
	}
	return nil
}

// known reports whether a host is an address, localhost, or the server's name.
func (a rules) known(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || host != "" && host == a.host
}

// holder refuses requests for data without the token.
func (a rules) holder(r *http.Request) *problem {
	if ok, _ := a.token.Has(r); !ok {
		return refused(http.StatusUnauthorized, "the request lacks the token: open the URL that trainer ui has printed")
	}
	return nil
}

// short is a text of a request in an answer.
func short(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// problem is why a request has no answer.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func refused(status int, format string, args ...any) *problem {
	return &problem{status, fmt.Sprintf(format, args...)}
}
