// Package strided reads tensors with strides ([View]): transposed, sliced and broadcast
// ones. Elements are moved bit for bit.
package strided
