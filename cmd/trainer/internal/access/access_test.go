package access

import (
	"net/http/httptest"
	"testing"
)

func TestHost(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "LocalHost": "localhost", "localhost:80": "localhost", "localhost.:80": "localhost", "model.Example.": "model.example",
		"127.0.0.1:8123": "127.0.0.1", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "a:b:c": "a:b:c", "evil.example:80:80": "evil.example:80:80",
	} {
		if got := Host(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestToken(t *testing.T) {
	for _, x := range []struct {
		token, header string
		ok, bearer    bool
	}{
		{"abc", "Bearer abc", true, true}, {"abc", "Bearer abcd", false, true}, {"abc", "Bearer ab", false, true}, {"abc", "Bearer ", false, true},
		{"abc", "bearer abc", false, false}, {"abc", "abc", false, false}, {"abc", "", false, false}, {"abc", "Basic abc", false, false},
		{"", "Bearer ", false, true}, {"", "", false, false}, {"", "Bearer x", false, true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", x.header)
		if ok, bearer := NewToken(x.token).Has(r); ok != x.ok || bearer != x.bearer {
			t.Errorf("token %q, header %q: %v, %v", x.token, x.header, ok, bearer)
		}
	}
	if ok, _ := (Token{}).Has(httptest.NewRequest("GET", "/", nil)); ok {
		t.Error("a request has no token")
	}
}
