package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
)

// flats is a table of 2,000 flats with their monthly rents. A square metre costs more in some districts and less
// in an old house, unless that is in the old town. A twentieth of the years and floors is missing.
func flats() []byte {
	metre := map[string]float64{"harbour": 19, "old town": 23, "station": 12, "hills": 15, "fields": 9}
	names := []string{"harbour", "old town", "station", "hills", "fields"}
	var b bytes.Buffer
	b.WriteString("flat,district,metres,rooms,floor,built,lift,rent\n")
	for i := range 2000 {
		r := draws(1, i)
		district, metres, built := names[r.IntN(len(names))], 25+r.IntN(120), 1890+r.IntN(135)
		floor, lift := r.IntN(9), []string{"yes", "no"}[r.IntN(2)]
		rent := metre[district] * float64(metres)
		if district != "old town" {
			rent *= 0.75 + 0.25*float64(built-1890)/135
		}
		if lift == "no" {
			rent -= 3 * float64(metres) * float64(floor) / 9
		}
		rent += 40 * r.NormFloat64()
		fmt.Fprintf(&b, "F%d,%s,%d,%d,%s,%s,%s,%d\n", 1000+i, district, metres, 1+metres/30, sometimes(r, floor), sometimes(r, built), lift, int(math.Round(rent)))
	}
	return b.Bytes()
}

// sometimes is a number, or nothing once in twenty.
func sometimes(r *rand.Rand, n int) string {
	if r.IntN(20) == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
