// Package calls cuts a segment's graph into calls: graphs of one op each, to be
// compiled and launched one by one. It only decides; it neither computes nor
// allocates.
//
// The order of the calls, and the values that share memory, are those of the
// device's own plan without fusion. So a run op by op gives the same bits as the
// compiled segment. A reshape is no call: it belongs to the call that reads it.
//
// The types to know are [Call] and [Memory].
package calls
