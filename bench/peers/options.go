package main

// options are the command's flags.
type options struct {
	rounds  int
	seconds float64
	threads int
	ops     bool   // measure single ops
	alone   bool   // measure Berth alone: a server, and steps in little memory
	only    string // workloads, with commas; empty means all
	root    string // of Berth's source
	docs    string // folder to write results to
	from    string // file of earlier results, to read instead of measuring
	python  string
	llmc    string
	lock    string
}
