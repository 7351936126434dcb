// Package rankstest is the conformance suite of transports: what package ranks promises of
// a [ranks.Transport]. Each rank calls [Play], then, where that is well, [Fail]. A rank may be
// a goroutine or a process, so the suite returns errors in place of using a test.
package rankstest
