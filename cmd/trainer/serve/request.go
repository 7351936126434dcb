package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/units"
)

// desk is what handlers of requests have.
type desk struct {
	limits Limits
	name   string // of the run's config
	models *models
	gate   *gate
	costs  *costs
	texts  bool // the model continues texts
}

// The sizes of reading, in bytes.
const (
	pieceBytes = 64 << 10 // that a client has the time Limits.Client for
	firstBytes = 64 << 10 // memory for a body of unknown length, at first
)

// read reads the body of a request. admit takes memory for a body of so many bytes, before
// they are read.
func (s *desk) read(w *answering, r *http.Request, admit func(bytes int64) *problem) ([]byte, error) {
	most, size := s.limits.Body, r.ContentLength
	if size < 0 {
		size = min(firstBytes, most)
	}
	if size > most {
		return nil, s.tooLong()
	}
	if p := admit(size); p != nil {
		return nil, p
	}
	body := make([]byte, 0, size+1)
	for {
		n, err := s.piece(w, r.Body, body[len(body):min(cap(body), len(body)+pieceBytes)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > most:
			return nil, s.tooLong()
		case errors.Is(err, io.EOF):
			w.whole = true
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // from now on the server sees whether the client stays
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &problem{status: http.StatusRequestTimeout, Kind: kindGone, Text: fmt.Sprintf("the body came too slowly: %s of it, or the rest, did not come within %v", units.Bytes(pieceBytes), s.limits.Client)}
		case err != nil:
			return nil, &problem{status: http.StatusBadRequest, Kind: kindGone, Text: "the body ended too early"}
		case len(body) == cap(body): // its length is not known
			next := min(2*int64(cap(body)), most+1)
			if p := admit(next + int64(cap(body))); p != nil { // the body is there twice while it is copied
				return nil, p
			}
			body = append(make([]byte, 0, next), body...)
		}
	}
}

// piece reads until b is full, or the client's time for it is up.
func (s *desk) piece(w http.ResponseWriter, body io.Reader, b []byte) (n int, err error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.limits.Client)) // a server that cannot has its own
	for n < len(b) && err == nil {
		k := 0
		k, err = body.Read(b[n:])
		n += k
	}
	return n, err
}

// tooLong refuses a body.
func (s *desk) tooLong() *problem {
	cure := "send fewer samples in a request, or a shorter prompt"
	if s.costs.pictures {
		cure = "send fewer or smaller images in a request, or start the server with a larger --max-body"
	}
	return beyond("", "the body has more than %s: %s", units.Bytes(s.limits.Body), cure)
}

// fields are the keys of a request, with pointers to their values. A *json.RawMessage gets
// the value's place in the body, and no copy.
type fields map[string]any

// fields adds the key that chooses an adapter, where there are some.
func (s *desk) fields(f fields, adapter **string) fields {
	if s.models.opt.Adapters != nil {
		f["adapter"] = adapter
	}
	return f
}

// decode reads the values of fields from a body.
func (s *desk) decode(body []byte, into fields) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	x, given := &scanner{b: body}, map[string]bool{}
	if x.next() != '{' {
		return &problem{status: http.StatusBadRequest, Kind: kindJSON, Text: fmt.Sprintf("the body is %s: send a JSON object", x.what())}
	}
	for x.at++; x.next() != '}'; {
		var key string
		if err := json.Unmarshal(x.token(), &key); err != nil {
			panic("BUG: " + err.Error()) // the body was checked
		}
		name, known := into.named(key)
		switch {
		case !known:
			return &problem{status: http.StatusBadRequest, Kind: kindJSON, Where: short(key), Text: fmt.Sprintf("there is no such key: there are %s", strings.Join(slices.Sorted(maps.Keys(into)), ", "))}
		case given[name]:
			return &problem{status: http.StatusBadRequest, Kind: kindJSON, Where: short(key), Text: "the key is given twice: send it once"}
		}
		given[name] = true
		what := x.what()
		from := x.at
		x.skip()
		if err := s.value(name, into[name], what, body[from:x.at]); err != nil {
			return err
		}
	}
	return nil
}

// named finds a key, written in capital or small letters.
func (f fields) named(key string) (name string, known bool) {
	for name := range f {
		if strings.EqualFold(name, key) {
			return name, true
		}
	}
	return "", false
}

// value reads a value of a key. what words it.
func (s *desk) value(key string, to any, what string, text []byte) error {
	if raw, ok := to.(*json.RawMessage); ok {
		*raw = text
		return nil
	}
	err := json.Unmarshal(text, to)
	if err == nil {
		return nil
	}
	if what == "a number" {
		what = "the number " + short(string(text))
	}
	return bad(key, "this is %s: send %s", what, s.limits.valueText(key, to))
}

// checkJSON refuses a body that is not one JSON value in UTF-8.
func checkJSON(body []byte) error {
	p := &problem{status: http.StatusBadRequest, Kind: kindJSON}
	if !json.Valid(body) {
		err := json.Unmarshal(body, new(json.RawMessage)) // copies nothing where there is an error
		syntax, ok := errors.AsType[*json.SyntaxError](err)
		switch {
		case !ok:
			p.Text = "this is not JSON"
		case len(bytes.TrimSpace(body)) == 0:
			p.Text = "the body is empty: send a JSON object"
		case syntax.Offset >= int64(len(body)) && strings.Contains(syntax.Error(), "unexpected end"):
			p.Text = "the JSON ends too early: send it whole"
		case strings.Contains(syntax.Error(), "after top-level value"):
			p.Where, p.Text = place(syntax.Offset), "something follows the JSON value: send one object"
		default:
			p.Where, p.Text = place(syntax.Offset), fmt.Sprintf("this is not JSON: %v", syntax)
		}
		return p
	}
	if !utf8.Valid(body) {
		at := 0
		for r, n := rune(0), 0; r != utf8.RuneError || n != 1; at += n {
			r, n = utf8.DecodeRune(body[at:])
		}
		p.Where, p.Text = place(int64(at)), "this is not UTF-8: send the text in UTF-8"
		return p
	}
	return nil
}

// place is a place in the body.
func place(offset int64) string { return fmt.Sprintf("byte %d", offset) }

// valueText words the values of a key that is read into a pointer.
func (l *Limits) valueText(key string, to any) string {
	switch to.(type) {
	case *string, **string:
		return "a text"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of texts"
	}
	switch key {
	case "temperature":
		return temperatureText
	case "top_p":
		return topPText
	case "repetition_penalty":
		return penaltyText
	case "timeout_ms":
		return l.timeText()
	case "tokens":
		return l.tokensText()
	case "top_k":
		return topKText
	}
	return fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64))
}

// timeText words the values of timeout_ms.
func (l *Limits) timeText() string {
	return fmt.Sprintf("a whole number from 1 to %d", l.Time.Milliseconds())
}

// tokensText words the values of tokens.
func (l *Limits) tokensText() string { return fmt.Sprintf("a whole number from 1 to %d", l.Tokens) }

// temperatureText and topPText word the values of temperature and top_p.
var temperatureText = fmt.Sprintf("a number from 0 to %.2g; 0 takes the likeliest token", math.MaxFloat32)

const topPText = "a number above 0, and at most 1"

// penaltyText words the values of repetition_penalty.
var penaltyText = fmt.Sprintf("a number from %v to %v; 1 is none", berth.LeastPenalty, berth.MostPenalty)

// topKText words the values of top_k.
var topKText = fmt.Sprintf("the number of likeliest tokens to draw from, from 1 to %d, or 0 for all", math.MaxInt32)

// call is a request that a model answers.
type call struct {
	ctx     context.Context // ends with the client, or when the request's time is up
	model   *model
	service *berth.Service // of the model, or of its adapter that was asked for
	top     int            // of the pixels of its samples: see pixelTop
	end     func()
}

// adapter is the name of the adapter that a request asks for by ?adapter= or by its body, which may say
// the same; "" asks for none.
func adapter(r *http.Request, named *string) (name string, err error) {
	list := r.URL.Query()["adapter"]
	if named != nil {
		list = append(list, *named)
	}
	for _, name := range list {
		if name != list[0] {
			return "", bad("adapter", "the request asks for two, %q and %q: name one, in the body or by ?adapter=", short(list[0]), short(name))
		}
	}
	if list == nil {
		return "", nil
	}
	return list[0], nil
}

// begin gives a request its time, timeout in milliseconds or the server's, and the newest
// model with the adapter that it asks for, named in its body or nil. The caller ends the call.
func (s *desk) begin(r *http.Request, timeout *int64, named *string) (*call, error) {
	name, err := adapter(r, named)
	if err != nil {
		return nil, err
	}
	most := s.limits.Time
	if timeout != nil {
		switch ms := *timeout; {
		case ms < 1:
			return nil, bad("timeout_ms", "it is %d: send %s, or leave it out", ms, s.limits.timeText())
		case ms > most.Milliseconds():
			return nil, beyond("timeout_ms", "it is %d: send %s, or leave it out", ms, s.limits.timeText())
		}
		most = time.Duration(*timeout) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), most, errTime)
	m, err := s.models.acquire(ctx)
	if err != nil {
		defer cancel()
		return nil, problemOf(ctx, err)
	}
	end := func() {
		s.models.release(m)
		cancel()
	}
	service, err := m.service.Adapter(name)
	if err != nil {
		defer end()
		return nil, s.noAdapter(name)
	}
	return &call{ctx, m, service, pixelTop(s.models.opt.configOf(name).Data.Source), end}, nil
}

// noAdapter refuses the name of an adapter that there is not.
func (s *desk) noAdapter(name string) *problem {
	list := s.models.opt.Adapters
	if len(list) == 0 {
		return bad("adapter", "the server has no adapters, and %q is none: leave it out", short(name))
	}
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	return bad("adapter", "there is no adapter %q: send %s, or leave it out for the base", short(name), strings.Join(names, ", "))
}

// failed words an error of the model's.
func (s *desk) failed(c *call, err error) *problem {
	s.models.check(c.model)
	return problemOf(c.ctx, err)
}
