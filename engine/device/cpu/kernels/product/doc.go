// Package product multiplies matrices, and computes convolutions and attention, which
// are made of products.
//
// Files build on each other in this order:
//
//	isa_amd64.go, vectors.go, generic.go   inner kernels and copies, by instruction set
//	sizes.go                               formats of factors, measures of inner kernels
//	operand.go, workspace.go, amx.go       matrices, packing memory, tiles
//	planes.go                              images of several samples as one matrix
//	gemm.go                                one product, and which operands it packs
//	pack.go, gemm_bf16.go, gemm_amx.go     the packing, by format
//	multiply.go                            the product itself
//	single.go                              the same of one row, which reads B where it lies
//	few.go                                 the same of a few rows, where B is transposed
//	stored.go                              a B that is stored in bfloat16 or int8
//	grid.go, partials.go, prepack.go       how products are cut, shared and packed as a whole
//	matmul.go, conv*.go, attention*.go     the kernels
//
// A convolution has several ways (a file each), of which conv.go chooses one by shape when
// the kernel is made: as products with windows that are read through im2col; as products
// with patches that lie side by side; without a matrix of windows, by vectors (direct) or by
// AMX; channel by channel (depthwise); as products whose results are added up (col2im); or, for
// windows of one pixel, as products of all samples at once (point). Factors of bfloat16 are rounded by the way itself, or
// in copies before it (rounded).
//
// A chunk that packs its operands borrows a workspace of about 820 KiB, of which as many
// exist as threads ever packed at the same time. Attention keeps a head's packed keys and
// values there too, a convolution with AMX up to 700 KiB of split images, and one of windows of one
// pixel up to 1 MiB of sums.
//
// # Why do K and the number format alone decide where a product's sums are cut?
//
// An element of C is one chain of fused multiply-adds per block of K, and the blocks' sums are added in
// order. Nothing else reaches a bit of the result, and so is free to be chosen for speed: tiles and their
// edges, packing, the number of threads, and whether blocks are summed in place or side by side in scratch
// memory. The grid of tiles may therefore depend on the number of threads: `grid.forThreads` weighs the
// cost of packing against threads that end at different times.
//
// # Which operands are packed beforehand, and which stay packed?
//
// Each tile packs its share of A and B shortly before it is read, so that the reader finds it in its own
// cache. Two cases differ:
//
//	operand                                  packed                                because                                                                       a step takes less time by
//	B that more than one row of tiles reads  whole, beforehand, in scratch memory  it is packed once for all tiles                                               gpt-small 6 %
//	bfloat16 A, with AMX                     whole, beforehand                     packing is slow compared with AMX's multiplication
//	float32 that is split for AMX            by each tile, even if twice           split operands are half as large again and would go through memory once more  gpt-small 5 %, gpt2 6 %
//
// Weights of bfloat16 stay packed until they change: through the microbatches of a step, an evaluation, a
// prediction. A step of four microbatches takes 12 % less time. A product whose weights come from memory
// gains most with few rows (`go test ./engine/device/cpu/kernels -run '^$' -bench PackCache`):
//
//	rows                             16  64  256
//	times as fast with kept weights  5   3   1.5
//
// This costs two bytes for each weight and layout, and forward and backward want different layouts. Nobody
// has to say where it pays: a buffer's contents have a number, and an operand is kept once a kernel reads
// the same number a second time. Training without microbatches reads new contents each time and keeps
// nothing. What is kept lies in free memory, leaves as soon as that is allocated, and is freed with its
// buffer.
//
// Weights of float32 are packed by each product. Kept, they would come from memory with six bytes each for
// AMX instead of four, or with the same four for vectors. Products of 128 rows and more took 0 to 20 %
// longer with AMX and 0 to 6 % less time with vectors, for half to all of the weights' memory again, twice.
// Splitting costs less than reading more.
//
// # How are pairs of bfloat16 rounded?
//
// With AVX512_BF16, an instruction rounds two vectors to one. It makes zeros of subnormal numbers, which the product takes for
// zeros as well. The largest subnormal numbers, from 0x7f8000 on, round to the least normal one, and are made so before. With NaNs
// and all others, its bits are those of ops.RoundBF16: TestEveryNumberIsRounded. On a Zen 5, rounding with integers took 15 to 40 % of
// a product's time. The copies of attention leave those subnormal numbers zeros.
//
// # Why does attention not go through AMX?
//
// It was built and measured, and gained too little to justify a second way of doing the same. A head's
// products are short: each number is split for only 32 to 64 steps of use, probabilities and their
// gradients even in two layouts. Between the products there are exponentials, which tiles do not make
// faster. One head of width 64 on one core, in microseconds; at that time exponentials took half as long
// again as now, or more:
//
//	positions  forward, vectors  forward, split  backward, vectors  backward, split
//	64         6.5               7.3             15                 17
//	128        20                19              47                 46
//	256        71                65              179                178
//	512        313               287             960                920
//	1024       1250              1110            3900               4200
//
// The best split forward pass over 256 positions took 58 µs:
//
//	part of it                                                         µs
//	products                                                           29
//	exponentials and sums                                              14
//	splitting                                                          13
//	for comparison: the same products alone, from one block of memory  22
//
// Tiles that were idle for half a microsecond take as long again to start. Letting vectors and tiles take
// turns less often, 64 queries at a time, moved scores and packed tiles from the first-level cache to the
// second, and took longer. Fetching the next head's rows ahead gained nothing either. In a step of
// gpt-small all this is less than 1 %.
//
// # Why do convolutions have a kernel of their own, and no transform?
//
// As a product, a 3×3 convolution writes each pixel nine times before it is multiplied. The direct kernel
// copies a band of rows once, with its padding, and holds the sums of 14 pixels by 32 channels in
// registers. The gradient of the weights uses the same kernel, with positions in the window in the place of
// pixels and pixels in the place of positions. Both sum in the order of a product, so a shape gives the
// same bits either way, in float32. Winograd's transform would save more than half of the multiplications of a 3×3, and
// would lose digits that a product keeps. Berth means to be exact where others are approximate.
//
// With bfloat16 and AVX512_BF16 a word of the copy has two channels, or in the gradient of the weights two pixels, and an
// instruction multiplies both. Two threads of a Zen 5, `trainer bench NAME --precision bf16` while others computed, in
// milliseconds a step:
//
//	           convolutions in float32  rounded, in pairs
//	cnn                            6.6                5.1
//	resnet-18                      584                368
//
// The gradient of many channels' weights is larger than a cache: 9 MB of 512 channels by 3×3. Its partial sums, one for a few
// samples, would all go through memory. So chunks are cells of the weights there, and each goes through copies of all
// samples. That halves the time of a dw of 512 × 512 channels of 7×7 pixels, and 16 partial sums need no memory.
//
// Three shapes go other ways:
//
//   - The input's gradient of a strided convolution. A direct kernel would multiply zeros, all but one
//     number in s². A product gives each window's contribution instead, and each pixel adds up its
//     windows in a fixed order.
//   - Windows side by side, such as the patches of an image, are only put in another order and then
//     multiplied as a matrix.
//   - Channels on their own (depthwise) have no product at all: the pixels of a row are multiplied by
//     one weight after another.
//
// # Why have depthwise convolutions of 3×3 a way of their own?
//
// Networks of depthwise convolutions have mostly small images of 3×3 windows. For any window, a plane is copied with its padding,
// so that each weight meets its pixels at one offset. For 3×3 and small images the copy takes several times as long as the
// arithmetic. There nine weights fit into registers, and vectors go down the columns of the image itself: a
// row of pixels is loaded once for each of its three columns in a window, and counts for three rows of output that
// are under way. Masks stand for the padding at the sides, zeros for rows above and below, and both are multiplied, so
// that a pixel's chain of sums has the same bits as from a copy. One call computes several planes, and fetches
// the next one meanwhile.
//
//	                            how a row is read
//	y, stride 1; dx, stride 1   three loads; dx goes up the image, since its chains begin with the last row
//	y, stride 2                 even and odd columns of two vectors, which stay in that order until a row is written
//	dx, stride 2, odd padding   two loads; a row makes two rows of dx, whose even and odd columns are zipped at the end
//	dw                          nine vectors of sums stay in registers for a plane; a column has the lane it has in a copy
//
// Other windows, strides and dilations, and plain Go, take copies. With AVX-512 two images of at most 8 columns of y share each
// vector, one's pixels beside the other's, and wider ones have vectors of 16 columns; dx with stride 2 takes the functions of AVX2.
//
// Putting 8 channels side by side, as oneDNN has them, would need no masks. Turning planes into that order and back
// takes 4 to 8 instructions for each vector, and a mask 1 for each load: rows of 7, 14 or 28 pixels fill 7 of 8 lanes, so there is
// less to win than that. Each vector of pixels costs 9 multiply-adds, 4.5 cycles of two units, in both
// layouts; rows that fill 7 of 8 lanes take an eighth more. Images that do not fit the caches wait for memory: 4 bytes in and 4 out
// for each pixel of y at stride 1, and as many again to fetch the lines that are written.
//
// # Why have windows of one pixel ways of their own?
//
// They are products of matrices that are already in memory, without windows to read. Three things made them slow:
//
//	what                                                   now                                                    times of before
//	7×7 pixels fill 3 panels of columns and a 16th of one  columns are the pixels of all samples: planesOfB       y 0.4 to 0.75
//	dw of 512 × 2048 channels takes 4 MB, written once     GemmBlocks adds up the pixels of several samples in a  dw 0.4 to 0.5
//	for each sample and added up                           tile of dw while it is in the first cache
//	weights were transposed element by element for dx      A is packed from columns                               dx 0.3 to 0.65
//
// Times are of 7×7 pixels on one thread with AVX2. The gradient of the weights keeps a tile's sums apart where the direct kernel
// keeps those of a sample. So all have the bits that the other ways give. With a stride, y and dw read a dense copy of
// the pixels that count, and dx is spread out from one.
//
// # How do convolutions go through AMX?
//
// With enough channels, a convolution is a sum of products of bfloat16 parts, as a product is. An image is
// split once, and not once per window, into planes of pairs of channels. That is a tile's layout, and a
// position in the window is the same plane, some pixels further on. Tiles have channels as rows and pixels
// as columns, so y is written as it lies in memory. Tiles run on across the padding at the ends of rows and
// drop the results there, where that takes fewer tiles than a fresh start at every row. The gradient of the
// weights sums over pixels: x keeps its layout, and dy has zeros where x has padding. Sums are stored while
// the tiles are busy with the next ones, and are added up in short blocks.
//
//	                                                                                           by AMX, vectors = 1
//	mean error (`go test ./engine/device/cpu/kernels/product -run ConvolutionsAreAsExact -v`)  0.4
//	time of a step of `cnn`                                                                    0.8
//	time of its second convolution                                                             0.67
//
// Vectors keep the shapes that would leave tiles half empty, or that would split more than they multiply:
// few channels, few pixels, strides in gradients, and 1×1 in the gradient of the weights. As with products,
// the shape alone decides.
package product
