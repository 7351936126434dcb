// Package pooling holds the kernels of max and average pooling, and their gradients.
//
// A plane is gone through in one of three ways: windows of 2x2 side by side by functions
// of their own; other windows tap by tap, where a tap is one element of every window; or
// window by window, where planes are small or there are no vectors.
package pooling
