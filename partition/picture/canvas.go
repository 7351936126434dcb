package picture

import (
	"fmt"
	"html"
	"strings"
)

// canvas collects the elements of a picture.
type canvas struct{ b strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

// box is a rounded rectangle. hint shows while the pointer is on it.
func (c *canvas) box(x, y, w, h, round float64, style, hint string) {
	c.add(`<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f" rx="%.1f" style="%s"><title>%s</title></rect>`, x, y, max(w, 0.5), h, round, style, html.EscapeString(hint))
}

// text writes at a point. anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, class, format string, args ...any) {
	c.add(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(fmt.Sprintf(format, args...)))
}

// line is a straight line.
func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// svg is the whole picture.
func (c *canvas) svg(w, h float64) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">
<style>
text { font: 12px system-ui, sans-serif; fill: #24303c }
.title { font-size: 17px; font-weight: 600 }
.stage { font-size: 13px; font-weight: 600 }
.small { font-size: 11px; fill: #5b6b7b }
.cell { font-size: 11px; fill: #fff; pointer-events: none }
.edge { stroke: #6b7b8b; stroke-width: 1.3; fill: none; marker-end: url(#arrow) }
.cut { stroke: #c0392b; stroke-width: 1.6; fill: none; marker-end: url(#arrow) }
.tick { stroke: #dde4ea }
.limit { stroke: #c0392b; stroke-width: 2; stroke-dasharray: 4 2 }
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#6b7b8b"/></marker></defs>
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, w, h, w, h, c.b.String())
}
