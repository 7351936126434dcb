// Package admission lets users of shared devices wait in the order in which they
// came.
//
// A [Line] is for calls that wait for each other's leases: each is served after a
// bounded number of others. [Floors] is for users that need some memory of each
// device for as long as they stay.
//
// # Who gets memory next
//
// Some users of Floors stay: they keep their memory until they leave. The others take turns: they give it away for a
// while. Who waits does so at the door, and then in the line.
//
// Who takes turns goes through the door once its memory fits beside all who stay. Who stays goes through once
// there is room for all who stay and, beside them, for any single one of those that take turns. So whoever is past the
// door can always have memory, if those that take turns give theirs away: nobody loses it for good, and none in the line
// waits in vain.
//
// At the door, nobody who stays passes another one that waits there for memory of the same device, and who takes
// turns passes none who stays. Those that take turns pass each other: one that does not fit beside those who stay
// loses nothing by that.
//
// In the line, the first one that needs memory of a device gets it first. Who takes turns and has had its turn gives its
// memory away as soon as that serves one of the first in the line, if all others who have had theirs give away, too. It joins
// the line at its end.
package admission
