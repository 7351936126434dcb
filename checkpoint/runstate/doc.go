// Package runstate is where a run stands: steps taken, the place in the data,
// and the metrics that decide which checkpoint is best and whether to stop
// early. With the variables on the devices it is all the state of a run.
//
// A checkpoint keeps it as a [State] in its manifest, which [Of] reads back:
//
//	st, err := runstate.Of(&snapshot.Manifest)
//	…
//	at := st.Progress
//	at.Advance(batch, pace)   // after each step
//	at.Take(metrics, cfg)     // at a boundary, after the evaluation
//
// The types to know are [Progress], [Pace], [Boundary] and [State].
//
// # Why is train.boundary part of a run's identity?
//
// The weights of a step do not depend on it, but early stopping and the best checkpoint do, and the ring's
// length does. A resumed run with other boundaries would have means over other steps under the same names.
package runstate
