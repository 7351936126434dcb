package partition

// Reduction is how the parts of a step's microbatches are summed. The two round
// differently.
type Reduction string

// The reductions.
const (
	ReduceOrder Reduction = "order" // one after the other; also the meaning of ""
	ReduceTree  Reduction = "tree"  // by a fixed binary tree over the microbatches
)

// Shard names the part of the model that replicas divide among them.
type Shard string

// The shards.
const (
	ShardNone      Shard = "none"      // none: the first replica updates all; also the meaning of ""
	ShardOptimizer Shard = "optimizer" // each updates some of the parameters, or ranges of them, and alone has the optimizer's state of them
)
