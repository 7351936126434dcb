// Package speed says how long devices take for what a step does: as measured, or roughly by
// flops and bytes. [Speeds] has the times of segments and of copies; [Work] is the arithmetic
// and the bytes of some nodes.
package speed
