// Package ops is the table of operations. Each op is a small struct with its
// attributes in exported fields; its methods are its metadata rule, its
// gradient and its cost ([graph.Op]). Its kernels are elsewhere: ops/ref has a
// plain one for each op, in float64, and each device has its own.
//
// Beside each op is a function that appends it, so that layers read like their
// formulas: y := ops.Add(b, ops.MatMulOf(b, x, w, false, false), bias).
//
// Tensors are row-major and contiguous. Letters in comments: B batch, T time,
// D width, N rows, C channels or classes, H and W height and width, K kernel.
package ops
