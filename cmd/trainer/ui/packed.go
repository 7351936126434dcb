package ui

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// leastPacked is from how many bytes on an answer is packed: shorter ones gain nothing.
const leastPacked = 1 << 10

// packers are gzip writers for answers that are whole.
var packers = sync.Pool{New: func() any { return newPacker() }}

// newPacker is the fastest gzip writer: numbers hardly get shorter by the others.
func newPacker() *gzip.Writer {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return z
}

// packs reports whether a client takes gzip.
func packs(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, given := strings.Cut(weight, "=")
			x, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !given || err == nil && x > 0
		}
	}
	return false
}

// answer writes a whole answer, packed where the client takes that. Nothing that an answer has is secret to who asks for it, so
// its length may tell of what is in it.
func answer(w http.ResponseWriter, r *http.Request, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	if len(text) < leastPacked || !packs(r) {
		_, _ = w.Write(text) // a client that has gone hears nothing
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := packers.Get().(*gzip.Writer)
	z.Reset(w)
	_, _ = z.Write(text)
	_ = z.Close()
	z.Reset(nil)
	packers.Put(z)
}
