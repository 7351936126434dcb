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
//
// # Why does an op bring its kernel as a method?
//
// A kernel beside its op, in a table by kind, is for devices with kernels of their own. An op of another
// module has one kernel for all devices that compute in host memory: with a method, it cannot be forgotten,
// and needs no table.
//
// # Why is an elementwise op a function over strips?
//
// `Map` gets strips that are in the cache, as built-in kernels in a cluster do, so an own activation is
// fused and shared among threads without knowing either. A call for a strip of about a thousand numbers
// costs nothing; one for each number would. There are at most two inputs, because a variable number of them
// would be a slice that each call allocates.
//
// # Why does Compute run in one thread?
//
// Cutting a foreign op into chunks would need a promise about which outputs each chunk writes. Ops that
// need all threads are mostly elementwise, and the rest is made of products.
package ops
