// Package saver takes checkpoints of a run while it trains. With the whole
// state staged, copies of the variables are queued at a step boundary, and a
// goroutine writes them while training goes on. Where memory is short the state
// passes through a bounded area, and training waits.
//
//	s := saver.New(rt.Residency, plan.Graph, program.Var, saver.NewOptions{…})
//	defer s.Close()
//	…
//	err := s.Save(ctx, leisure, manifest)  // at a step boundary
//	…
//	err = s.Poll()                         // between steps
//
// The types to know are [Saver] and [Bound]. Begin with saver.go: a save from its begin to its end.
// source.go brings the variables out, and bound.go decides how much memory that may take.
package saver
