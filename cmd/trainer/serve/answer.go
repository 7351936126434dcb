package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth"
)

// predictRequest is the body of POST /predict.
type predictRequest struct {
	Inputs  json.RawMessage `json:"inputs"`
	Timeout *int64          `json:"timeout_ms"`
}

// predict answers POST /predict.
func (s *desk) predict(w http.ResponseWriter, r *http.Request) error {
	var req predictRequest
	if err := s.read(w, r, &req); err != nil {
		return err
	}
	c, err := s.begin(r, req.Timeout)
	if err != nil {
		return err
	}
	defer c.end()
	in, err := readSamples(c.ctx, req.Inputs, c.model.trained.Info(), s.limits.Samples)
	if err != nil {
		return problemOf(c.ctx, err)
	}
	memory, err := s.answers.take(in.Shape()[0], c.model.service.AnswerBytes())
	if err != nil {
		return err
	}
	defer s.answers.give(memory)
	list, err := c.model.service.Answers(c.ctx, in)
	if err != nil {
		p := s.failed(c, err)
		if p.status == http.StatusUnprocessableEntity {
			p.Where = "inputs"
		}
		return p
	}
	return gone(s.writePredictions(w, list, c.model.service.Used()))
}

// writePredictions answers POST /predict with {"predictions": […], "weights": {…}}. Of
// large answers, the text of one at a time is in memory.
func (s *desk) writePredictions(w http.ResponseWriter, list []berth.Prediction, used berth.Used) error {
	w.Header().Set("Content-Type", "application/json")
	before := `{"predictions":[`
	for _, p := range list {
		if err := s.writePiece(w, before, p, ""); err != nil {
			return err
		}
		before = ","
	}
	return s.writePiece(w, `],"weights":`, used, "}\n")
}

// writePiece writes a value between two texts.
func (s *desk) writePiece(w http.ResponseWriter, before string, v any, after string) error {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	s.allowWriting(w)
	_, err = fmt.Fprintf(w, "%s%s%s", before, b, after)
	return err
}

// generateRequest is the body of POST /generate.
type generateRequest struct {
	Prompt      string   `json:"prompt"`
	Tokens      *int     `json:"tokens"`
	Temperature *float64 `json:"temperature"`
	TopK        int      `json:"top_k"`
	TopP        *float64 `json:"top_p"`
	Seed        uint64   `json:"seed"`
	Stop        []string `json:"stop"`
	Slide       bool     `json:"slide"`
	Stream      bool     `json:"stream"`
	Timeout     *int64   `json:"timeout_ms"`
}

// Defaults of POST /generate, those of trainer generate.
const (
	usualTokens      = 200
	usualTemperature = 0.8
	mostStops        = 16
)

// options are those of the service.
func (q *generateRequest) options(l *Limits) (o berth.GenerateOptions, err error) {
	o = berth.GenerateOptions{Prompt: q.Prompt, Tokens: min(usualTokens, l.Tokens), Temperature: usualTemperature, TopK: q.TopK, Seed: q.Seed, Stop: q.Stop, Slide: q.Slide}
	if q.Tokens != nil {
		o.Tokens = *q.Tokens
	}
	if q.Temperature != nil {
		o.Temperature = *q.Temperature
	}
	if q.TopP != nil {
		o.TopP = *q.TopP
	}
	switch {
	case q.Prompt == "":
		return o, bad("prompt", "it is empty: send the text to continue")
	case o.Tokens < 1:
		return o, bad("tokens", "it is %d: send %s", o.Tokens, l.tokensText())
	case o.Tokens > l.Tokens:
		return o, beyond("tokens", "it is %d: send %s", o.Tokens, l.tokensText())
	case o.Temperature < 0 || o.Temperature > math.MaxFloat32:
		return o, bad("temperature", "it is %v: send %s", o.Temperature, temperatureText)
	case o.TopK < 0 || o.TopK > math.MaxInt32:
		return o, bad("top_k", "it is %d: send %s", o.TopK, topKText)
	case q.TopP != nil && !(o.TopP > 0 && o.TopP <= 1):
		return o, bad("top_p", "it is %v: send %s", o.TopP, topPText)
	case slices.Contains(q.Stop, ""): // or null
		i := slices.Index(q.Stop, "")
		return o, bad(fmt.Sprintf("stop[%d]", i), "it is empty or null: send a text, or leave it out")
	case len(q.Stop) > mostStops:
		return o, beyond("stop", "it has %d texts: send at most %d", len(q.Stop), mostStops)
	}
	return o, nil
}

// generateAnswer is the answer to POST /generate without "stream".
type generateAnswer struct {
	Text string `json:"text"`
	berth.Generation
}

// generate answers POST /generate.
func (s *desk) generate(w http.ResponseWriter, r *http.Request) error {
	var req generateRequest
	if err := s.read(w, r, &req); err != nil {
		return err
	}
	o, err := req.options(&s.limits)
	if err != nil {
		return err
	}
	c, err := s.begin(r, req.Timeout)
	if err != nil {
		return err
	}
	defer c.end()
	if c.model.trained.CanGenerate() != nil {
		return &problem{status: http.StatusNotFound, Kind: kindPath, Text: "the model does not continue texts: POST /predict gives its answers"}
	}
	var text strings.Builder
	stream := &events{w: w, allow: s.allowWriting}
	res, err := c.model.service.Generate(c.ctx, o, func(p berth.Piece) error {
		if req.Stream {
			return stream.send("piece", p)
		}
		text.WriteString(p.Text)
		return nil
	})
	if err != nil {
		p := s.failed(c, err)
		if errors.Is(err, berth.ErrOptions) { // the others were checked
			p.Where, p.Text = "prompt", strings.TrimPrefix(p.Text, "prompt: ")
		}
		if stream.begun {
			_ = stream.send("error", p)
			return &sentProblem{p}
		}
		return p
	}
	s.allowWriting(w)
	if req.Stream {
		return gone(stream.send("end", res))
	}
	writeJSON(w, http.StatusOK, generateAnswer{text.String(), res})
	return nil
}

// sentProblem is a problem that the client has been told in a stream.
type sentProblem struct{ *problem }

// gone words an error of writing to a client.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return &sentProblem{&problem{status: statusGone, Kind: kindGone, Text: err.Error()}}
}

// events is a stream of server-sent events.
type events struct {
	w     http.ResponseWriter
	allow func(http.ResponseWriter) // gives the client time to read
	begun bool
}

// send sends an event at once. A client that does not read it in time has gone.
func (e *events) send(name string, v any) error {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-store")
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	e.allow(e.w)
	if _, err := fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

// allowWriting gives a client time to read what is written next.
func (s *desk) allowWriting(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.Client)) // a server that cannot has its own
}
