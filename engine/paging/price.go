package paging

import "math"

// line is the flow's cost near a price of the bytes given up at start: how it
// changes with the price, and the bytes given up in each gap.
type line struct {
	price, cost, slope float64
	given              []float64
}

// cost is the least cost of the flow with the present shares, and given is the
// bytes that it gives up. The flow's equations leave one thing open: the bytes
// given up at the launch start, from which those at all others follow. A price
// settles it, the one that makes the cost greatest. Over the price, the cost is a
// concave chain of lines; each step takes the point where the lines of both sides
// meet.
func (r *relaxation) cost() float64 {
	low := r.at(0)
	if low.slope <= 0 {
		r.given = low.given
		return low.cost
	}
	high := r.at(max(1, r.price*2))
	for high.slope > 0 {
		low = high
		high = r.at(high.price * 2)
	}
	for range 100 {
		r.price = (high.cost - low.cost + low.slope*low.price - high.slope*high.price) / (low.slope - high.slope)
		meet := low.cost + low.slope*(r.price-low.price)
		l := r.at(r.price)
		if l.cost >= meet-1e-9*(1+math.Abs(meet)) {
			break
		}
		if l.slope > 0 {
			low = l
		} else {
			high = l
		}
	}
	// Both sides cost the same there; mixed, they give up what start demands.
	mix := low.slope / (low.slope - high.slope)
	r.given = low.given
	for i := range r.given {
		r.given[i] += mix * (high.given[i] - low.given[i])
	}
	return low.cost + low.slope*(r.price-low.price)
}

// at solves the flow for a price.
func (r *relaxation) at(price float64) line {
	arcs := r.flow.arcs
	for i, g := range r.gaps {
		c := r.share[i]
		if g.loads {
			c++
		}
		arcs[i].cost = c * r.weight(i)
	}
	for _, i := range r.wound {
		arcs[i].cost -= price
	}
	slack := len(r.gaps) + r.start
	arcs[slack].cost = price
	r.flow.solve()
	l := line{price: price, cost: price * float64(r.demand), slope: float64(r.demand + arcs[slack].flow)}
	for _, i := range r.wound {
		l.slope -= float64(arcs[i].flow)
	}
	l.given = make([]float64, len(r.gaps))
	for i := range arcs {
		l.cost += arcs[i].cost * float64(arcs[i].flow)
		if i < len(r.gaps) {
			l.given[i] = float64(arcs[i].flow) * r.weight(i)
		}
	}
	return l
}

// weight is the bytes that move for each byte of memory: less than 1 where sizes
// are rounded up.
func (r *relaxation) weight(i int) float64 {
	b := r.trace.Objects[r.gaps[i].object].Bytes
	return float64(b) / float64(Rounded(b))
}
