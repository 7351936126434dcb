package fuse

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// Class is the way in which an op goes through its data. It decides with which
// others the op can be fused.
type Class uint8

// The classes.
const (
	Solo  Class = iota // reads or writes in an order of its own
	Map                // element i of the output takes element i of each operand, perhaps stretched
	Head               // makes its first output tile by tile; others can go on with each tile
	Rows               // goes row by row, with others of its class that go over the same rows
	Small              // has little to do; goes with others of its class that do not depend on it
	Sum                // sums whole rows, in an order that does not depend on when each row is ready
	View               // moves no bytes
)

// rule is an op's line in the table.
type rule struct {
	class Class
	why   string // the reason why the op takes nothing tile by tile; follows its name in texts

	// For heads.
	row   int  // number of last dimensions that make a row of the frame
	whole bool // its tiles are whole rows
	lean  bool // its tiles are small parts of rows: see cutter.streams
}

// rules is the table of ops by kind.
var rules = map[string]rule{
	"matmul":          {Head, "reads its operands many times", 1, false, true},
	"conv2d":          {Head, "reads windows", 2, false, false},
	"conv2d_grad_x":   {Head, "reads windows", 2, false, false},
	"max_pool2d_grad": {Head, "writes windows", 2, true, false},
	"avg_pool2d_grad": {Head, "writes windows", 2, true, false},
	"layer_norm":      {Head, "goes over each row several times", 1, true, false},
	"layer_norm_grad": {Head, "goes over each row several times", 1, true, false},
	"rms_norm":        {Head, "goes over each row several times", 1, true, false},
	"rms_norm_grad":   {Head, "goes over each row several times", 1, true, false},
	"gather":          {Head, "reads rows by number", 1, true, false},
	"scatter_add":     {Head, "reads rows by number", 1, true, false},

	"reshape": {class: View},

	"conv2d_grad_w":      {why: "reads windows"},
	"max_pool2d":         {why: "reads windows"},
	"avg_pool2d":         {why: "reads windows"},
	"reduce_sum":         {why: "is known only at the end of a sum"},
	"reduce_mean":        {why: "is known only at the end of a sum"},
	"reduce_max":         {why: "is known only after the last element"},
	"reduce_max_grad":    {why: "looks for the first of equals"},
	"sum_to":             {class: Sum},
	"sum_squares":        {why: "is known only at the end of a sum"},
	"transpose":          {why: "moves elements"},
	"slice":              {why: "moves elements"},
	"slice_grad":         {why: "moves elements"},
	"concat":             {why: "moves elements"},
	"cast":               {why: "converts elements"},
	"softmax":            {why: "goes over each row several times"},
	"softmax_grad":       {why: "goes over each row several times"},
	"log_softmax":        {why: "goes over each row several times"},
	"log_softmax_grad":   {why: "goes over each row several times"},
	"cross_entropy":      {class: Rows, why: "reads targets, which may be wrong"},
	"cross_entropy_grad": {class: Rows, why: "reads targets, which may be wrong"},
	"correct":            {class: Rows, why: "reads targets, which may be wrong"},
	"mse":                {why: "is known only at the end of a sum"},
	"bce":                {why: "is known only at the end of a sum"},
	"binary_correct":     {why: "is known only at the end of a sum"},
	"outcome":            {why: "looks for the first of equals"},
	"binary_outcome":     {why: "gives integers"},
	"rank":               {why: "reads targets, which may be wrong"},
	"tally":              {why: "is known only at the end of a sum"},
	"check_finite":       {why: "ends the step where it fails"},
	"batch_norm":         {why: "goes over each channel several times"},
	"batch_norm_grad":    {why: "goes over each channel several times"},
	"attention":          {why: "reads other rows"},
	"attention_grad":     {why: "reads other rows"},
	"rotary":             {why: "turns pairs of numbers"},
	"batch_norm_eval":    {why: "goes over each channel"},
	"fill":               {why: "is the same in every step"},
	"sgd":                {class: Small, why: "is one pass already"},
	"adam":               {class: Small, why: "is one pass already"},
	"lion":               {class: Small, why: "is one pass already"},
	"clip_factor":        {why: "is one number"},
	"grad_norm":          {why: "is one number"},
	"learning_rate":      {why: "is one number"},
	"increment":          {why: "is one number"},
	"ring_write":         {why: "is one number"},
	"averaged":           {class: Small, why: "is one pass already"},
	"ranged":             {why: "is one pass already"},
	"square_parts":       {why: "is known only at the end of a sum"},
	"square_total":       {why: "is one number"},
	"cached_attention":   {why: "reads other rows"},
	"cache_write":        {why: "writes a few rows in place"},
	"state_write":        {why: "writes a few rows in place"},
	"positions":          {why: "is a few whole numbers"},
	"last_row":           {why: "reads rows by number"},
	"repetition_penalty": {why: "looks for tokens"},
	"seen_write":         {why: "writes a few numbers in place"},
	"sample":             {why: "goes over each row several times"},
	"pad_with":           {why: "is a few whole numbers"},
	"position_weights":   {why: "is a few numbers"},
	"nonzero":            {why: "is known only after the last element"},
	"unique":             {why: "sorts elements"},
}

// mapKinds are the kinds of class Map.
var mapKinds = []string{
	"add", "sub", "mul", "div", "affine", "lerp", "less", "equal", "select", "swiglu", "geglu", "geglu_tanh", "select_grad", "broadcast_to", "dropout", "mse_grad", "bce_grad",
	"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "square", "abs",
	"relu_grad", "gelu_tanh_grad", "gelu_erf_grad", "silu_grad", "sigmoid_grad", "tanh_grad", "exp_grad", "log_grad",
	"sqrt_grad", "rsqrt_grad", "square_grad", "abs_grad",
}

func init() {
	for _, kind := range mapKinds {
		rules[kind] = rule{class: Map}
	}
}

// ruleOf is the table's rule for a node's op. Ops that bring their own kernel are not in the
// table.
func ruleOf(n *graph.Node) rule {
	switch {
	case graph.Maps(n):
		return rule{class: Map}
	case graph.BringsKernel(n.Op):
		return rule{why: "is computed as a whole"}
	}
	return rules[n.Op.Kind()]
}

// Kinds lists the kinds of ops that have a rule, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(rules)) }

// IsView tells whether a node moves no bytes: its output is its input under
// another shape.
func IsView(n *graph.Node) bool { return rules[n.Op.Kind()].class == View }

// Ends tells whether a node ends the step when something went wrong. Donated inputs
// must still be as they were then.
func Ends(n *graph.Node) bool { return n.Op.Kind() == "check_finite" }
