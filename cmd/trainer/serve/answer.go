package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
)

// predict answers POST /predict.
func (s *desk) predict(w *answering, r *http.Request, p *pass) error {
	c, in, err := s.samples(w, r, p)
	if err != nil {
		return err
	}
	list, used, err := s.answers(c, p, in)
	if err != nil {
		return err
	}
	return gone(s.writePredictions(w, list, used))
}

// answers waits for the answers to samples, in the client's turn, and ends the call: writing
// the answers does not need the model, and a client may take its time to read them.
func (s *desk) answers(c *call, p *pass, in *tensor.Dense) (_ []berth.Prediction, used berth.Used, err error) {
	defer c.end()
	done, err := p.samples(c.ctx, in.Shape()[0])
	if err != nil {
		return nil, used, err
	}
	defer done()
	list, err := c.service.Answers(c.ctx, in)
	if err != nil {
		p := s.failed(c, err)
		if p.status == http.StatusUnprocessableEntity {
			p.Where = "inputs"
		}
		return nil, used, p
	}
	return list, c.service.Used(), nil
}

// samples reads the samples of a request to POST /predict, and holds what they and their
// answers take. The caller ends the call.
func (s *desk) samples(w *answering, r *http.Request, p *pass) (_ *call, in *tensor.Dense, err error) {
	if p := p.queued(); p != nil {
		return nil, nil, p
	}
	body, err := s.read(w, r, func(bytes int64) *problem {
		return p.admit(use{requests: 1}, s.costs.predict(bytes, 1), s.costs.predict(bytes, s.costs.samples(bytes, bytes, &s.limits)))
	})
	if err != nil {
		return nil, nil, err
	}
	var inputs json.RawMessage
	var timeout *int64
	var named *string
	files, isFiles, err := filesOf(r, body, s.limits.Samples)
	size, most := int64(len(body)), int64(len(files))
	switch {
	case err != nil:
		return nil, nil, err
	case isFiles:
		size *= 2 // the parts of a form are copies
	default:
		if err := s.decode(body, s.fields(fields{"inputs": &inputs, "timeout_ms": &timeout}, &named)); err != nil {
			return nil, nil, err
		}
		most = s.costs.samples(size, int64(bytes.Count(inputs, []byte{','})), &s.limits)
		if s.costs.pictures { // each in quotes, and decoded one by one
			most = min(most+int64(bytes.Count(inputs, []byte{'"'})/2), int64(s.limits.Samples))
			size *= 2
		}
	}
	if p := p.measured(s.costs, size, most); p != nil {
		return nil, nil, p
	}
	c, err := s.begin(r, timeout, named)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	info := c.service.Info()
	pictures := &pictureReader{info, p, s.costs.predict(size, most)}
	switch {
	case isFiles && info.Pictures == nil:
		err = bad("", "the model takes no images: send JSON, with each sample %s", sampleText(info, c.top))
	case isFiles:
		in, err = pictures.readFiles(c.ctx, files)
	default:
		in, err = readSamples(c.ctx, inputs, info, c.top, s.limits.Samples, int(most), pictures)
	}
	if err != nil {
		return nil, nil, problemOf(c.ctx, err)
	}
	_ = p.hold(use{requests: 1, memory: s.costs.predict(0, int64(in.Shape()[0]))}) // less than before
	return c, in, nil
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
	_, err = fmt.Fprintf(w, "%s%s%s", before, b, after)
	return err
}

// generateRequest is the body of POST /generate.
type generateRequest struct {
	prompt      string
	list        json.RawMessage // of messages, until it is read
	messages    []berth.Message
	tokens      *int
	temperature *float64
	topK        int
	topP        *float64
	penalty     *float64
	seed        uint64
	stop        []string
	slide       bool
	stream      bool
	adapter     *string
	timeout     *int64
}

// fields are the keys of the body.
func (q *generateRequest) fields() fields {
	return fields{
		"prompt": &q.prompt, "tokens": &q.tokens, "temperature": &q.temperature, "top_k": &q.topK, "top_p": &q.topP, "repetition_penalty": &q.penalty, "seed": &q.seed,
		"messages": &q.list, "stop": &q.stop, "slide": &q.slide, "stream": &q.stream, "timeout_ms": &q.timeout,
	}
}

// Defaults of POST /generate, those of trainer generate.
const (
	usualTokens      = 200
	usualTemperature = 0.8
	mostStops        = 16
)

// options are those of the service, whose model reads so many tokens at once.
func (q *generateRequest) options(l *Limits, context int64) (o berth.GenerateOptions, err error) {
	if given(q.list) {
		if err := q.readMessages(context); err != nil {
			return o, err
		}
	}
	o = berth.GenerateOptions{Prompt: q.prompt, Tokens: min(usualTokens, l.Tokens), Temperature: usualTemperature, TopK: q.topK, Seed: q.seed, Stop: q.stop, Slide: q.slide}
	if q.tokens != nil {
		o.Tokens = *q.tokens
	}
	if q.temperature != nil {
		o.Temperature = *q.temperature
	}
	if q.topP != nil {
		o.TopP = *q.topP
	}
	if q.penalty != nil {
		o.RepetitionPenalty = *q.penalty
	}
	o.Messages = q.messages
	switch {
	case q.prompt == "" && q.messages == nil:
		return o, bad("prompt", "it is empty: send the text to continue")
	case o.Tokens < 1:
		return o, bad("tokens", "it is %d: send %s", o.Tokens, l.tokensText())
	case o.Tokens > l.Tokens:
		return o, beyond("tokens", "it is %d: send %s", o.Tokens, l.tokensText())
	case o.Temperature < 0 || o.Temperature > math.MaxFloat32:
		return o, bad("temperature", "it is %v: send %s", o.Temperature, temperatureText)
	case o.TopK < 0 || o.TopK > math.MaxInt32:
		return o, bad("top_k", "it is %d: send %s", o.TopK, topKText)
	case q.topP != nil && !(o.TopP > 0 && o.TopP <= 1):
		return o, bad("top_p", "it is %v: send %s", o.TopP, topPText)
	case q.penalty != nil && !(o.RepetitionPenalty >= berth.LeastPenalty && o.RepetitionPenalty <= berth.MostPenalty):
		return o, bad("repetition_penalty", "it is %v: send %s", o.RepetitionPenalty, penaltyText)
	case slices.Contains(q.stop, ""): // or null
		i := slices.Index(q.stop, "")
		return o, bad(fmt.Sprintf("stop[%d]", i), "it is empty or null: send a text, or leave it out")
	case len(q.stop) > mostStops:
		return o, beyond("stop", "it has %d texts: send at most %d", len(q.stop), mostStops)
	}
	return o, nil
}

// generateAnswer is the answer to POST /generate without "stream".
type generateAnswer struct {
	Text string `json:"text"`
	berth.Generation
}

// generate answers POST /generate.
func (s *desk) generate(w *answering, r *http.Request, p *pass) error {
	o, q, err := s.prompt(w, r, p)
	if err != nil {
		return err
	}
	c, err := s.begin(r, q.timeout, q.adapter)
	if err != nil {
		return err
	}
	defer c.end()
	if c.service.CanGenerate() != nil {
		return &problem{status: http.StatusNotFound, Kind: kindPath, Text: "the model does not continue texts: POST /predict gives its answers"}
	}
	done, err := p.text(c.ctx)
	if err != nil {
		return err
	}
	defer done()
	var text strings.Builder
	stream, tokens := &events{w: w}, o.Tokens
	res, err := c.service.Generate(c.ctx, o, func(piece berth.Piece) error {
		_ = p.hold(use{requests: 1, texts: 1, memory: s.costs.generating(0, tokens)}) // the prompt is not needed any more
		if q.stream {
			return stream.send("piece", piece)
		}
		text.WriteString(piece.Text)
		return nil
	})
	if stream.broken != nil {
		return gone(stream.broken)
	}
	if err != nil {
		p := s.failed(c, err)
		if _, long := errors.AsType[*berth.LongPromptError](err); long {
			p.Text += ` ("slide": true)`
		}
		if errors.Is(err, berth.ErrOptions) { // the others were checked
			p.Where, p.Text = "prompt", strings.TrimPrefix(p.Text, "prompt: ")
			if o.Messages != nil {
				p.Where, p.Text = "messages", strings.TrimPrefix(p.Text, "messages: ")
			}
		}
		if stream.begun {
			_ = stream.send("error", p)
			return &sentProblem{p}
		}
		return p
	}
	if q.stream {
		return gone(stream.send("end", res))
	}
	writeJSON(w, http.StatusOK, generateAnswer{text.String(), res})
	return nil
}

// prompt reads a request to POST /generate, and holds what its text takes.
func (s *desk) prompt(w *answering, r *http.Request, p *pass) (o berth.GenerateOptions, q generateRequest, err error) {
	body, err := s.read(w, r, func(bytes int64) *problem {
		return p.admit(use{requests: 1, texts: 1}, s.costs.generate(bytes), s.costs.generate(bytes))
	})
	if err != nil {
		return o, q, err
	}
	if err := s.decode(body, s.fields(q.fields(), &q.adapter)); err != nil {
		return o, q, err
	}
	if o, err = q.options(&s.limits, s.costs.context); err != nil {
		return o, q, err
	}
	kept := int64(len(q.prompt))
	kept += q.conversationBytes()
	for _, stop := range q.stop {
		kept += int64(2 * len(stop))
	}
	need := s.costs.generating(kept, o.Tokens)
	if p := p.admit(use{requests: 1, texts: 1}, need, need); p != nil {
		return o, q, p
	}
	return o, q, nil
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
	w      *answering
	begun  bool
	broken error // why the client gets no more of them
}

// send sends an event at once. A client that does not read it in time has gone.
func (e *events) send(name string, v any) error {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-store")
		e.w.streams()
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if _, e.broken = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b); e.broken == nil {
		e.broken = http.NewResponseController(e.w).Flush()
	}
	return e.broken
}
