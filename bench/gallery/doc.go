// Command gallery writes the invented data of docs/gallery.md: a table of flats with their rents, a folder of
// drawn shapes, the same shapes in the binary format of CIFAR-10, and conversations about Shakespeare's people
// with their chat template. The same flags write the same bytes.
//
//	go run ./bench/gallery -out gallery
package main
