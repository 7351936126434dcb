// Package order decides which jobs run on which devices. It is one pure function
// of the jobs, the devices and the time: [Arrange]. It starts nothing and remembers
// nothing; what has to last until the next decision, it gives back, and the caller
// keeps it in the job. Of those that get devices, [Grant] says which have host memory, and [Close]
// which others give it back. [Forecast] foretells what follows from all three.
//
// # Which job goes first?
//
// The jobs stand in a line:
//
//  1. those that have waited for more than 20 times their own length, the one with
//     the largest ratio of age to length first;
//  2. by priority, the higher one first;
//  3. by the time that is left, the least first; that of a running job counts half;
//  4. by number.
//
// From the front, each job gets the devices that it needs. Where there are too few
// left, the job waits, and those behind it fill what there is.
//
// The shortest job first gives the least mean time from submission to end that any order
// can give on one device (Schrage, "A proof of the optimality of the shortest
// remaining processing time discipline", 1968). Three things are in its way here.
//
// Long jobs could wait for ever behind short ones. Rule 1 ends that: it bounds the
// stretch, which is how many times longer a job took than it would have alone (Bender,
// Chakrabarti and Muthukrishnan, "Flow and stretch metrics for scheduling continuous job
// streams", 1998).
//
// Two jobs of like length would take turns, each for a moment the one with less left.
// Half of the running job's time is the lead that the other must have.
//
// Lengths are predictions. One that is off by a factor of two moves its job in the line,
// and the lead of rule 3 hides most of that.
//
// # Which job is safe from the others?
//
// A job that begins by rule 1 is Safe: it keeps its ratio, and runs to its end before
// others of rule 1, whatever theirs become. Otherwise each of two old jobs would displace the other,
// since the ratio of the one that waits grows faster.
//
// There is one exception. If a job ahead of it waits for several devices, a job that fills one of these
// meanwhile is not safe. Otherwise two devices would never be free at the same time while
// single ones keep coming.
package order
