// Package svg draws every picture of Berth: plans, charts, bars and those of the pages. All
// have its colours, its font and its sizes of text, on white, also in a dark viewer.
//
//	p := &svg.Picture{Title: "squares", Width: 400, Height: 300}
//	plot := p.Axes(svg.Axes{
//		Box: svg.Box{X: 20, Y: 20, W: 360, H: 260}, Title: "squares",
//		X: svg.Axis{Label: "x", High: 4, Ticks: svg.Ticks(0, 4, 5)},
//		Y: svg.Axis{High: 16, Ticks: svg.Ticks(0, 16, 5)},
//	})
//	plot.Line([]svg.Point{{X: 0, Y: 0}, {X: 2, Y: 4}, {X: 4, Y: 16}}, svg.Style{Stroke: svg.Blue})
//	text := p.String()
//
// A [Picture] is a list of a [Path] or a [Text] each. [Axes] and [Picture.Legend] lay charts
// out by the widths of their texts. A [Pen] draws a picture in another format; package raster
// has the one for PNG.
//
// Lengths are in pixels, x grows to the right and y down.
package svg
