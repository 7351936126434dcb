// Package product multiplies matrices, and computes convolutions and attention, which
// are made of products.
//
// Files build on each other in this order:
//
//	isa_amd64.go, vectors.go, generic.go   inner kernels and copies, by instruction set
//	sizes.go                               formats of factors, measures of inner kernels
//	operand.go, workspace.go, amx.go       matrices, packing memory, tiles
//	gemm.go                                one product, and which operands it packs
//	pack.go, gemm_bf16.go, gemm_amx.go     the packing, by format
//	multiply.go                            the product itself
//	grid.go, partials.go, prepack.go       how products are cut, shared and packed as a whole
//	matmul.go, conv*.go, attention*.go     the kernels
//
// A convolution has several ways (a file each), of which conv.go chooses one by shape when
// the kernel is made: as products with windows that are read through im2col; as products
// with patches that lie side by side; without a matrix of windows, by vectors (direct) or by
// AMX; channel by channel (depthwise); or as products whose results are added up (col2im).
//
// A chunk that packs its operands borrows a workspace of about 820 KiB, of which as many
// exist as threads ever packed at the same time. Attention keeps a head's packed keys and
// values there too, and a convolution with AMX up to 700 KiB of split images.
package product
