package browser

import (
	"fmt"
	"testing"
)

// alone are answers of a server that has taken two samples of a device's memory, five minutes apart. They take the place of the
// server's.
const alone = `(() => {
	const sample = (at) => ({ at, devices: [{ id: "cpu:0", limit: 4000, floor: 100, peak: 900, usage: [600, 200], in: 0, out: 0, spilled: 0 }], host: { limit: 0, tensors: 10, data: 10 } });
	const now = Date.now(), all = { usages: ["weight", "opt_state"], version: 7, apart: 5000, now: { devices: [] }, samples: [sample(now - 300000), sample(now)] };
	const ask = window.fetch;
	window.fetch = (url, o) => url.startsWith("/api/memory") ? Promise.resolve(new Response(JSON.stringify(all))) : url.startsWith("/api/events") ? new Promise(() => {}) : ask(url, o);
	return true;
})()`

// painted counts the pixels of the picture of a device from one part of its width to another that have the colour of weights.
const painted = `((from, to) => {
	const c = document.querySelector("figure[aria-label='cpu:0'] .plot canvas"), p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, want = [0x00, 0x72, 0xb2];
	let n = 0;
	for (let y = 0; y < c.height; y++) for (let x = Math.floor(from * c.width); x < to * c.width; x++) if (want.every((v, i) => Math.abs(p[4 * (y * c.width + x) + i] - v) < 3)) n++;
	return n;
})(%g, %g)`

// Two samples far apart are two bars with nothing between them: nobody knows what was there.
func TestGapInMemory(t *testing.T) {
	x := open(t, gallery(t).url)
	x.rowsAre(rows)
	eval[bool](x, alone)
	x.visit("/memory")
	x.until(`document.querySelector("figure[aria-label='cpu:0'] .plot canvas")`)
	x.settled()
	if n := eval[int](x, fmt.Sprintf(painted, 0.0, 1.0)); n < 200 {
		t.Errorf("the samples have %d pixels", n)
	}
	if n := eval[int](x, fmt.Sprintf(painted, 0.3, 0.8)); n != 0 {
		t.Errorf("there are %d pixels between the samples", n)
	}
	eval[bool](x, `(document.querySelector("figure[aria-label='cpu:0'] details").open = true)`)
	x.until(`document.querySelectorAll("figure[aria-label='cpu:0'] tbody tr").length === 2`)
}
