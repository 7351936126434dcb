// Package crew has the processes of one run, its ranks, act as one.
//
//	c, err := crew.Meet(ctx, transport, crew.Options{Program: "trainer 1.2"})
//	…
//	err = c.Agree(ctx, "the data", err, crew.Fact{Name: "the data", Value: fingerprint, Remedy: "give all ranks the same files"})
//	list, err := c.Gather(ctx, "its devices", mine)
//	text, err := c.Share(ctx, "the run's folder", text)
//
// All ranks call the same methods in the same order. What goes wrong in one, or differs between two, all
// hear of in [Crew.Agree]: an error there is a [Verdict], and rank 0 tells the user. While steps run, a [Pilot]
// says when all stop and save, and a [Borrower] gets the bytes that another rank has. From [Meet] on, ranks that are silent or gone
// are noticed, and steps that stand still; a rank that fails alone calls [Crew.Tell].
//
// The types to know are [Crew], [Verdict], [Pilot], [Borrower] and [Doing].
//
// # Why does rank 0 decide for the step after the next?
//
// A rank that asked whether to stop before each step would wait for a message there and back. So what rank 0
// says is about the end of the step that it is about to queue. The message is there long before the others
// have come so far, since no rank can end a step without the sums of rank 0.
package crew
