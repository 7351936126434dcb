package gen

import "strings"

// A group folds over 64 virtual lanes, however many lanes it has: each takes every 64th
// element, and a tree joins their results. So the order is the same on every device.

// foldText sets TO in all lanes of a group. T is an array of 64 in local memory.
const foldText = `	for (i64 v = LANE; v < 64; v += LANES) {
		f32 s = FIRST;
		for (i64 e = v; e < COUNT; e += 64) { STEP }
		T[v] = s;
	}
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		for (i64 v = LANE; v < h; v += LANES) { f32 a = T[v], b = T[v + h]; T[v] = JOIN; }
		BARRIER;
	}
	f32 TO = T[0];
	BARRIER;
`

// fold is the text that folds count elements into a new variable to: step changes s, which
// begins as first, for element e, and join is of the results a and b.
func fold(to, count, first, step, join string) string {
	return strings.NewReplacer("FIRST", first, "COUNT", count, "STEP", step, "JOIN", join, "TO", to).Replace(foldText)
}

// sum is the text that sums over count elements: step adds element e to s.
func sum(to, count, step string) string { return fold(to, count, "0.0f", step, "a + b") }

// most is the text that finds the largest of count numbers v(e). NaN is larger than all.
func most(to, count, v string) string {
	return fold(to, count, "-INF_F", "f32 x = "+v+"; s = LARGER(s, x);", "LARGER(a, b)")
}

// totalText is [foldText] for sums in which cancellation leaves little: c is what rounding
// took from the sum s. U is another array of 64 in local memory.
const totalText = `	for (i64 v = LANE; v < 64; v += LANES) {
		f32 s = 0.0f, c = 0.0f;
		for (i64 e = v; e < COUNT; e += 64) { STEP }
		T[v] = s;
		U[v] = c;
	}
	BARRIER;
	for (i64 h = 32; h > 0; h /= 2) {
		for (i64 v = LANE; v < h; v += LANES) { f32 s = T[v], c = U[v] + U[v + h]; ADD(T[v + h]) T[v] = s; U[v] = c; }
		BARRIER;
	}
	f32 TO = SUM(T[0], U[0]);
	BARRIER;
`

// total is the text that sums over count elements with the rounding of one addition: step
// adds element e by ADD.
func total(to, count, step string) string {
	return strings.NewReplacer("COUNT", count, "STEP", step, "TO", to).Replace(totalText)
}

// The local memory of folds, and of totals.
const (
	foldShared  = "\tSHARED f32 T[64];\n"
	totalShared = "\tSHARED f32 T[64], U[64];\n"
)
