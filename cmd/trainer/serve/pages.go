package serve

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/exposition"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// unknown refuses a path that there is not, or a method that the path does not have.
func (s *desk) unknown(_ http.ResponseWriter, r *http.Request) error {
	generate := ""
	if s.texts {
		generate = "POST /generate, "
	}
	if methods := s.methods(r.URL.Path); methods != nil {
		return &problem{status: http.StatusMethodNotAllowed, Kind: kindPath, allow: strings.Join(methods, ", "),
			Text: fmt.Sprintf("%s %s: send %s %s", short(r.Method), r.URL.Path, methods[0], r.URL.Path)}
	}
	return &problem{status: http.StatusNotFound, Kind: kindPath,
		Text: fmt.Sprintf("%s %s: there is POST /predict, %sPOST /reload, GET /healthz, GET /metrics and GET /", short(r.Method), short(r.URL.Path), generate)}
}

// methods are those of a path; nil where there is no such path.
func (s *desk) methods(path string) []string {
	switch {
	case path == "/predict", path == "/reload", path == "/generate" && s.texts:
		return []string{http.MethodPost}
	case path == "/healthz", path == "/metrics", path == "/":
		return []string{http.MethodGet, http.MethodHead}
	}
	return nil
}

// healthz answers GET /healthz.
func (s *desk) healthz(w http.ResponseWriter, _ *http.Request) error {
	m, again, broken := s.models.now()
	switch {
	case s.models.ending.Load():
		return unavailable("the server ends")
	case broken != nil:
		return reloading(broken, again)
	case m != nil && m.service.Err() != nil:
		s.models.check(m)
		return unavailable(fmt.Sprintf("the device failed: %v", m.service.Err()))
	}
	answer := map[string]any{"status": "ok", "weights": s.models.used(), "devices": s.models.states()}
	if list := usedByAdapters(s.models.parts()); list != nil {
		answer["adapters"] = list
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// deviceState says whether a device answers.
type deviceState struct {
	Device string `json:"device"` // or those that have a copy of the weights together
	Status string `json:"status"` // ok; failed, where it answers nothing and is not lost; or lost
	Error  string `json:"error,omitempty"`
}

// states are those of all devices.
func (x *models) states() (states []deviceState) {
	list, usable := x.groups(), x.usable()
	for i := range list {
		state := deviceState{Device: devicesText(&list[i]), Status: "ok"}
		if err := list[i].Lost; err != nil {
			state.Status, state.Error = "failed", err.Error()
			if slices.ContainsFunc(list[i].Devices, func(id device.ID) bool { return !slices.Contains(usable, id) }) {
				state.Status = "lost"
			}
		}
		states = append(states, state)
	}
	return states
}

// metrics answers GET /metrics.
func (s *desk) metrics(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", exposition.ContentType)
	var page strings.Builder
	s.models.counted.write(&page, s.models.parts(), s.models.groups(), s.gate.memory(), s.gate.all.memory)
	_, err := fmt.Fprint(w, page.String())
	return gone(err)
}

// describe answers GET /.
func (s *desk) describe(w http.ResponseWriter, r *http.Request) error {
	c, err := s.begin(r, nil, nil)
	if err != nil {
		return err
	}
	defer c.end()
	info, l := c.service.Info(), s.limits
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n\n", s.name, usedText(c.service.Used()))
	s.describeAdapters(&b, c.service.Parts())
	key := ""
	if len(c.service.Parts()) > 1 {
		key = "\"adapter\": NAME, "
	}
	fmt.Fprintf(&b, "POST /predict   {\"inputs\": [sample, ...], %s\"timeout_ms\": N}\n", key)
	fmt.Fprintf(&b, "  A sample is %s.\n%s  An answer has %s.\n", sampleText(info, c.top), rowText(info.Columns), answerText(info))
	if info.Pictures != nil {
		fmt.Fprintf(&b, "  An image may also be the whole body, or a part of a form (multipart/form-data). It has at most %s pixels.\n", units.Thousands(mostPixels))
	}
	texts := ""
	if c.service.CanGenerate() == nil {
		texts = fmt.Sprintf(", and a text gets at most %d tokens", l.Tokens)
		fmt.Fprintf(&b, "POST /generate  {\"prompt\": TEXT, \"tokens\": N, \"temperature\": T, \"top_k\": K, \"top_p\": P, \"repetition_penalty\": R, \"seed\": N, \"stop\": [TEXT, ...], \"slide\": BOOL, \"stream\": BOOL, %s\"timeout_ms\": N}\n", key)
		fmt.Fprintf(&b, "  The answer has the text that continues the prompt; with stream, server-sent events.\n")
		if info.Chat != nil && info.Chat.Template != "" {
			fmt.Fprintf(&b, "  In place of the prompt, {\"messages\": [{\"role\": \"user\", \"content\": TEXT}, ...]} asks for the answer to a conversation, by the chat template.\n")
		}
	}
	fmt.Fprintf(&b, "POST /reload    loads a better or newer checkpoint, if there is one; without one, devices answer again on which an operation failed\nGET  /healthz   whether requests are answered, and with which weights\nGET  /metrics   numbers for Prometheus\n\n")
	fmt.Fprintf(&b, "A request has at most %s and %d samples%s; an answer takes at most %v.\n", units.Bytes(l.Body), l.Samples, texts, l.Time)
	fmt.Fprintf(&b, "All requests together take at most %s of memory, and those of one client address at most %d%% of that; connections take at most %s beside it.\n",
		units.Bytes(s.gate.all.memory), l.Share, units.Bytes(int64(s.gate.all.connections)*connectionBytes))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = fmt.Fprint(w, printable(b.String()))
	return gone(err)
}

// describeAdapters lists adapters, and the memory of all weights.
func (s *desk) describeAdapters(b *strings.Builder, parts []berth.ServicePart) {
	if len(parts) == 1 {
		return
	}
	fmt.Fprintf(b, "\"adapter\": NAME in a request asks for one of these adapters; without it, the base answers:\n")
	for _, p := range parts[1:] {
		fmt.Fprintf(b, "  %s: %s\n", p.Adapter, usedText(p.Used))
	}
	fmt.Fprintf(b, "%s\n\n", PartsText(parts))
}

// PartsText says which weights of adapters are on the devices, with their bytes.
func PartsText(parts []berth.ServicePart) string {
	var list []string
	for _, p := range parts[1:] {
		list = append(list, fmt.Sprintf("%s %s", p.Adapter, units.Bytes(p.Bytes)))
	}
	return fmt.Sprintf("The base's weights take %s on the devices, once, and those of the adapters beside it: %s.", units.Bytes(parts[0].Bytes), strings.Join(list, ", "))
}

// usedByAdapters says which weights adapters have, by name; nil where there are none.
func usedByAdapters(parts []berth.ServicePart) (list map[string]berth.Used) {
	for _, p := range parts {
		if p.Adapter == "" {
			continue
		}
		if list == nil {
			list = map[string]berth.Used{}
		}
		list[p.Adapter] = p.Used
	}
	return list
}

// printable writes characters that would control a terminal as Go does, such as \x1b: names
// are those of the data.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// usedText names weights.
func usedText(u berth.Used) string {
	if u.ID == 0 {
		return "weights of " + filepath.Base(u.File)
	}
	text := fmt.Sprintf("checkpoint %d of step %d", u.ID, u.Step)
	switch {
	case u.Best && u.ID == u.NewestID:
		return text + ", the newest and the best"
	case u.Best:
		return text + ", the best"
	case u.ID == u.NewestID:
		return text + ", the newest"
	}
	return text
}
