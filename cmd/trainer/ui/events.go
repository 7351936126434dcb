package ui

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/ui/curves"
)

const (
	aliveEvery = 15 * time.Second // a stream in which nothing happens says that it lives
	mostNews   = 1000             // points of all curves of a stream at a look; more are thinned, to leastNews of each curve
	leastNews  = 4
)

// table answers GET /api/table: every row, and the version from which events go on.
func (s *Server) table(ctx context.Context, _ *http.Request) (any, error) {
	if err := s.board.fresh(ctx); err != nil {
		return nil, err
	}
	return struct {
		Folder string `json:"folder"`
		Memory bool   `json:"memory,omitempty"` // it is known
		change
	}{s.board.folder, s.memory.ask != nil, s.board.all()}, nil
}

// watched is a run whose points a stream has, and how far.
type watched struct {
	id    string
	mark  curves.Mark // the zero one: the page was not told yet where its points go on
	unit  string
	saved numbers // the places of its checkpoints, as the page has them
}

// events answers GET /api/events?instance=I&since=V&run=ID&x=UNIT&log=ID&memory=V with server-sent events:
//
//	rows    what the table has got since version V, or since the event before
//	points  what the curves of a run have got
//	saved   the places of a run's checkpoints, when one was saved or deleted
//	anew    points are sent from here on, or a run's curves have changed otherwise: the page loads them anew
//	memory  who has memory since version V of that, or since the event before
//	log     what the log of a run has got; the first one has its end
//	reload  it is not known what has changed since V: the page loads all anew
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if !s.streams.Take() {
		write(w, refused(http.StatusServiceUnavailable, "as many pages are open as the server answers: close some"))
		return
	}
	defer s.streams.Give()
	q := r.URL.Query()
	version, err := strconv.ParseInt(q.Get("since"), 10, 64)
	if err != nil || len(q["run"]) > mostRuns {
		write(w, refused(http.StatusBadRequest, "events need since=VERSION and at most %d runs", mostRuns))
		return
	}
	defer s.board.pulse.watch()()
	mem, end, err := s.memory.follow(q)
	if err != nil {
		write(w, problemOf(err))
		return
	}
	defer end()
	out := newStream(w, r)
	defer out.close()
	var runs []*watched
	for _, id := range q["run"] {
		runs = append(runs, &watched{id: id, unit: q.Get("x")})
	}
	log := s.tailOf(q.Get("log"))
	defer log.close()
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for first := true; ; first = false {
		c, news, known := s.board.since(q.Get("instance"), version)
		switch {
		case !known:
			out.send("reload", struct{}{})
			return
		case first || c.Version > version:
			out.send("rows", c)
			version = c.Version
		}
		for _, of := range runs {
			s.follow(r, out, of, mostNews/len(runs))
		}
		moves := mem.send(out)
		s.sendLog(r, log, out)
		if out.broken != nil {
			return
		}
		select {
		case <-news:
		case <-moves:
		case <-log.next():
		case <-alive.C:
			out.alive()
		case <-r.Context().Done():
			return
		case <-s.life.Done():
			return
		}
	}
}

// follow sends what the curves of a run have got, so many points or few of each curve.
func (s *Server) follow(r *http.Request, out *stream, of *watched, most int) {
	run := s.board.run(of.id)
	if run == nil {
		return
	}
	ctx, cancel := s.bounded(r)
	defer cancel()
	type got struct {
		news  []curves.News
		next  curves.Mark
		whole bool
		saved numbers
	}
	mark, unit := of.mark, of.unit
	x, err := apart(ctx, s, []string{of.id}, func() (g got, err error) {
		if err := s.board.hanging([]string{of.id}); err != nil {
			return g, err
		}
		h, err := s.library.read(ctx, run.dir)
		if err != nil {
			return g, err
		}
		at, _ := h.Axis(unit, run.summary.EpochSteps)
		g.saved = savedAt(run, at)
		g.news, g.next, g.whole = h.Since(mark, at, max(leastNews, most/max(1, len(h.Names())))) // what was written before the stream began is not sent
		return g, nil
	})
	if err != nil {
		return // what the page asks says why
	}
	moved := !slices.Equal(of.saved, x.saved)
	of.mark, of.saved = x.next, x.saved
	switch {
	case !x.whole:
		out.send("anew", map[string]string{"run": of.id})
	case len(x.news) > 0:
		list := []lineJSON{}
		for _, n := range x.news {
			list = append(list, lineOf(n.Name, n.X, n.Y))
		}
		out.send("points", struct {
			Run    string     `json:"run"`
			Curves []lineJSON `json:"curves"`
		}{of.id, list})
	}
	if x.whole && moved { // curves that are loaded anew bring them
		out.send("saved", struct {
			Run         string  `json:"run"`
			Checkpoints numbers `json:"checkpoints"`
		}{of.id, x.saved})
	}
}

// stream is a stream of server-sent events. Nothing waits in it: a client that does not read an event in time has gone.
type stream struct {
	w      http.ResponseWriter
	c      *http.ResponseController
	z      *gzip.Writer // writes to w; nil: the client takes no gzip
	broken error
}

// newStream begins a stream.
func newStream(w http.ResponseWriter, r *http.Request) *stream {
	e := &stream{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	if packs(r) {
		w.Header().Set("Content-Encoding", "gzip")
		e.z = newPacker()
		e.z.Reset(w)
	}
	return e
}

func (e *stream) send(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	e.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, text))
}

// alive sends a comment.
func (e *stream) alive() { e.write(":\n\n") }

func (e *stream) write(text string) {
	if e.broken != nil {
		return
	}
	_ = e.c.SetWriteDeadline(time.Now().Add(pieceTime))
	if e.z == nil {
		_, e.broken = e.w.Write([]byte(text))
	} else if _, e.broken = e.z.Write([]byte(text)); e.broken == nil {
		e.broken = e.z.Flush()
	}
	if e.broken == nil {
		e.broken = e.c.Flush()
	}
}

// close ends the stream.
func (e *stream) close() {
	if e.broken == nil && e.z != nil {
		_ = e.c.SetWriteDeadline(time.Now().Add(pieceTime))
		e.broken = e.z.Close()
	}
}
