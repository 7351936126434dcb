// Package ui is the page of trainer ui: the runs of a folder and the jobs of the queue, live, in a browser. It only reads.
//
//	s, err := ui.New(ui.Options{Folder: "runs"})
//	…
//	defer s.Close()
//	err = s.HTTP().Serve(listener) // open http://ADDRESS/#TOKEN with s.Token()
//
// The type to know is [Server]. access.go and bounds.go say who may ask, and how much. A board (board.go) looks at the run
// folders once a second while somebody watches (visits.go leaves those behind that do not answer), and events.go tells watchers
// what is new. memory.go remembers who had the memory of devices, and metrics.go writes numbers for Prometheus. run.go is what
// the page shows of one run, and step.go has its next step traced; package ui/curves reads and thins its metrics. sweep.go finds
// out which runs and jobs are sweeps and trials, log.go follows logs, and plan.go keeps pictures of plans. The page itself is in
// page/: plain JavaScript modules, and uPlot.
//
// A further panel is a handler in the table of server.go, and a module in page/ that asks it.
//
// # Why does the token not come as a cookie?
//
// A browser sends cookies with every request, also with those that pages of other sites make it send. The token is in the part of
// the URL that browsers keep to themselves, and the page sends it as a header. So nothing is ever asked in the user's name.
//
// # Why is a watcher's queue no list?
//
// A list of what a slow browser has not read yet grows, or loses something. Each watcher has one number, the version that it
// has seen, and gets what has changed since. One that is so far behind that deletions are forgotten loads all anew.
package ui
