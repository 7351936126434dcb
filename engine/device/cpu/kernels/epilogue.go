package kernels

// Epilogue goes on with a kernel's output piece by piece, while a piece is in
// the cache.
type Epilogue interface {
	// After gets rows i0..i1 and columns j0..j1 of the first output, as a matrix
	// of all its rows by its last dimension, or for images by its last two. They
	// are final, and each element is in one piece of a run. How the output is cut
	// into pieces depends on the number of threads too, so no result may depend
	// on it. It may read and write these elements. Several threads call it at the
	// same time, each with a piece of its own.
	After(i0, i1, j0, j1 int)
}

// Follower is a kernel that an epilogue can follow.
type Follower interface {
	Kernel
	// Then makes every later run call e for all of its output; nil ends that. An
	// output without elements has no pieces.
	Then(e Epilogue)
}
