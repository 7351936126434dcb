// Package forecast is pass 7 of a plan: it takes the launches of a step and gives a [Forecast]
// for each device: the peak without a limit, the floor that a single launch needs, and the
// bytes that move because the limit is below the peak.
//
// A [Trace] is how launches use the memory of one device (trace.go). The run's choice of
// victims, package paging, replays it (forecast.go). [Shortage] compares plans by it.
package forecast
