// Package admission lets users of shared devices wait in the order in which they
// came.
//
// A [Line] is for calls that wait for each other's leases: each is served after a
// bounded number of others. [Floors] is for users that need some memory of each
// device for as long as they stay.
package admission
