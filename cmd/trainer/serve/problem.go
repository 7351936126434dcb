package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/device"
)

// Kinds of problems: the values of error.kind in answers, and of the label kind in
// berth_serve_errors_total.
const (
	kindJSON        = "json"        // the body is not the JSON of a request
	kindInput       = "input"       // a value that the model or the server cannot take
	kindLimit       = "limit"       // a limit of the server on one request
	kindPath        = "path"        // there is no such path, or not with this method
	kindForbidden   = "forbidden"   // who asks may not
	kindBusy        = "busy"        // too much is under way
	kindTime        = "time"        // the request's time is up
	kindUnavailable = "unavailable" // no weights are on the devices, or the server ends
	kindInternal    = "internal"    // a mistake of the server
	kindGone        = "gone"        // the client has gone, or was too slow
)

// problem is why a request has no answer.
type problem struct {
	status int
	allow  string // the methods that the path has, where it lacks the request's
	retry  int    // seconds after which to try again; 0: the same request fails again
	Kind   string `json:"kind"`
	Where  string `json:"where,omitempty"` // the place in the request, such as inputs[3]
	Text   string `json:"message"`
}

// Error names the place, and says what to do.
func (p *problem) Error() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// bad is a value in a request that cannot be used.
func bad(where, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, Kind: kindInput, Where: where, Text: fmt.Sprintf(format, args...)}
}

// beyond is a request beyond a limit.
func beyond(where, format string, args ...any) *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, Kind: kindLimit, Where: where, Text: fmt.Sprintf(format, args...)}
}

// busy asks to try again once less is under way.
func busy(format string, args ...any) *problem {
	return &problem{status: http.StatusServiceUnavailable, retry: 1, Kind: kindBusy, Text: fmt.Sprintf(format, args...)}
}

// forbidden refuses who asks.
func forbidden(text string) *problem {
	return &problem{status: http.StatusForbidden, Kind: kindForbidden, Text: text}
}

// unavailable asks to try again.
func unavailable(text string) *problem {
	return &problem{status: http.StatusServiceUnavailable, retry: 1, Kind: kindUnavailable, Text: text}
}

// errTime is the cause of a request's context whose time is up.
var errTime = errors.New("the time of the request is up")

// problemOf words an error of the service.
func problemOf(ctx context.Context, err error) *problem {
	known, ok := errors.AsType[*problem](err)
	switch {
	case ok:
		return known
	case errors.Is(err, errTime) || errors.Is(context.Cause(ctx), errTime):
		return &problem{status: http.StatusGatewayTimeout, retry: 1, Kind: kindTime,
			Text: "the answer was not there in time: ask for fewer samples or tokens, give more time (timeout_ms), or try again when the server is less busy"}
	case ctx.Err() != nil:
		return &problem{status: statusGone, Kind: kindGone, Text: "the client has gone"}
	case errors.Is(err, berth.ErrBusy):
		return busy("too many requests wait: try again later")
	case errors.Is(err, berth.ErrClosed):
		return unavailable("the server ends, or has lost its device: try again later")
	case errors.Is(err, berth.ErrOptions):
		return bad("", "%s", strings.TrimPrefix(err.Error(), berth.ErrOptions.Error()+": "))
	case errors.Is(err, berth.ErrNonFinite):
		return &problem{status: http.StatusUnprocessableEntity, Kind: kindInput, Text: notFinite(err)}
	}
	return &problem{status: http.StatusServiceUnavailable, retry: 1, Kind: kindUnavailable, Text: err.Error()}
}

// notFinite words the error of a result that is not finite in words of the model.
func notFinite(err error) string {
	where := "the model"
	if e, ok := errors.AsType[*device.NonFiniteError](err); ok && e.Node != nil && e.Node.Layer != nil {
		where = e.Node.Layer.String()
	}
	return fmt.Sprintf("%s has a result that is not finite: send numbers of the size that the model was trained on, or samples one by one to find the one that it is of", where)
}

// statusGone is the status in metrics of a request whose client has gone.
const statusGone = 499

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	if p.status == statusGone {
		w.WriteHeader(http.StatusServiceUnavailable) // nobody hears it
		return
	}
	if p.allow != "" {
		w.Header().Set("Allow", p.allow)
	}
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retry))
	}
	writeJSON(w, p.status, map[string]*problem{"error": p})
}

// writeJSON answers with a value. A client that has gone hears nothing.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
