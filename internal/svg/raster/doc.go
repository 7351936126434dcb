// Package raster draws pictures as PNG, for programs that show no SVG.
//
//	err := raster.WritePNG(w, picture, 2)
//
// [WritePNG] is all that is exported.
package raster
