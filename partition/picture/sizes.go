package picture

// Sizes in pixels.
const (
	blockWide  = 96.0
	blockHigh  = 34.0
	blockGap   = 54.0 // between blocks of a stage
	stageGap   = 92.0 // between stages
	stagePad   = 14.0
	stageAbove = 46.0 // of a stage's frame, over its blocks
	leastWide  = 1100.0
	mostCause  = 225.0 // of a cause that makes its stage wide
)

// mostShown is the most blocks of a stage that are drawn one by one.
const mostShown = 6
