package rundir

// TextOf is for tests: the text of a line of metrics.jsonl.
var TextOf = textOf
