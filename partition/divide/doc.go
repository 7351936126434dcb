// Package divide is pass 4 of a plan: it takes an index and a placement, and divides the
// update. [Share] says which replica updates which parameter. [Updates] rewrites the graph
// where updates are cut into ranges: of one replica ([Ranges], since memory is short), or one
// for each replica ([Shards]); [Place] places the new nodes.
//
// # Why does a range of an update have its state alone?
//
// The update of a weight needs the weight, its gradient and the optimizer's state at once: four equal
// tensors under Adam. For GPT-2's embedding that was the floor of the whole plan. Elementwise updates can
// go range by range, but the weight and its gradient are read and written whole by products, so their bytes
// lie side by side. The state is used by the update alone. So the state becomes a variable per range, and
// each range's launch needs the weight, the gradient and its own state. The weight changes in place from
// range to range. With that, the largest launch is the product that adds to the gradient: no cut of the
// update would lower the floor further.
//
// A gradient that is computed in parts (package parts) is the exception. Where nothing but such an update and norms
// read it, nothing joins the parts: each is a range or several, and the launch needs the weight and so much of the rest.
// With several microbatches each part has a sum of its own. A norm adds up the squares of ranges that begin at multiples
// of `ops.SumElems`; one that lies across parts is joined for that alone.
//
// The cut is a rewrite of the graph at plan time. `ops.Ranged` wraps an update, and its kernel is that of
// the whole update on narrowed memory. Nothing below the plan knows of ranges: residency has tensors,
// devices have nodes. A range that a replica owns alone would be the same node. Above the plan, a variable
// is whole: a checkpoint has the same tensors, bytes and order with and without ranges. Ranges begin at
// multiples of the elements that a sum adds up at a time (`ops.SumElems`), so a norm could be summed by
// ranges too, with the same bits.
//
// Ranges are launches, and each has a cost. So there are none without a limit, updates far smaller than
// memory stay whole, an update has at most 64 ranges, and their size follows from the limit. The smallest
// size decides the floor: it is tried wherever a larger one does not fit.
//
// A tied weight's gradient is the sum of two. Where updates are in ranges, it takes the place of the first
// instead of a third tensor.
package divide
