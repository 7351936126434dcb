package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/berth-ml/berth/internal/units"
)

// desk is what handlers of requests have.
type desk struct {
	limits  Limits
	name    string // of the run's config
	models  *models
	answers *budget
}

// read decodes the body of a request into v, a pointer to a struct.
func (s *desk) read(w http.ResponseWriter, r *http.Request, v any) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.limits.Client)) // a server that cannot has its own
	if r.ContentLength > s.limits.Body {                                               // before any of it comes
		return s.tooLong()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.limits.Body))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return s.tooLong()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, Kind: kindGone, Text: fmt.Sprintf("the body did not come within %v", s.limits.Client)}
	case err != nil:
		return &problem{status: http.StatusBadRequest, Kind: kindGone, Text: "the body ended too early"}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return s.jsonProblem(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &problem{status: http.StatusBadRequest, Kind: kindJSON, Where: place(d.InputOffset()), Text: "something follows the JSON object: send one object"}
	}
	if key := (&scanner{b: body}).twice(); key != "" {
		return &problem{status: http.StatusBadRequest, Kind: kindJSON, Where: key, Text: "the key is given twice: send it once"}
	}
	return nil
}

// tooLong refuses a body.
func (s *desk) tooLong() *problem {
	return beyond("", "the body has more than %s: send fewer samples in a request", units.Bytes(s.limits.Body))
}

// jsonProblem words an error of decoding.
func (s *desk) jsonProblem(err error) *problem {
	p := &problem{status: http.StatusBadRequest, Kind: kindJSON}
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		p.Text = "the body is empty: send a JSON object"
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.Text = "the JSON ends too early: send it whole"
	case errors.As(err, &syntax):
		p.Where, p.Text = place(syntax.Offset), fmt.Sprintf("this is not JSON: %v", syntax)
	case errors.As(err, &other) && other.Field != "":
		p.Kind, p.Where, p.Text = kindInput, other.Field, fmt.Sprintf("this is a JSON %s: send %s", short(other.Value), s.limits.valueText(other.Field, other.Type.Kind().String()))
	case errors.As(err, &other):
		p.Text = fmt.Sprintf("the body is a JSON %s: send an object", short(other.Value))
	default:
		p.Text = short(err.Error()) + ": see GET /"
	}
	return p
}

// place is a place in the body.
func place(offset int64) string { return fmt.Sprintf("byte %d", offset) }

// valueText words the values of a key, whose Go type is of a kind.
func (l *Limits) valueText(key, kind string) string {
	switch kind {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "slice":
		return "a list of texts"
	}
	switch key {
	case "temperature":
		return temperatureText
	case "top_p":
		return topPText
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

// topKText words the values of top_k.
var topKText = fmt.Sprintf("the number of likeliest tokens to draw from, from 1 to %d, or 0 for all", math.MaxInt32)

// call is a request that a model answers.
type call struct {
	ctx   context.Context // ends with the client, or when the request's time is up
	model *model
	end   func()
}

// begin gives a request its time, timeout in milliseconds or the server's, and the newest
// model. The caller ends the call.
func (s *desk) begin(r *http.Request, timeout *int64) (*call, error) {
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
	return &call{ctx, m, func() {
		s.models.release(m)
		cancel()
	}}, nil
}

// failed words an error of the model's.
func (s *desk) failed(c *call, err error) *problem {
	s.models.check(c.model)
	return problemOf(c.ctx, err)
}
