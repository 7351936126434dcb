package forecast

// Shortage is the cost of devices that are too small for a plan.
type Shortage struct {
	Missing int64   // bytes below the floors
	Moved   int64   // bytes per step
	Seconds float64 // of the slowest device
}

// ShortageOf is the shortage of a plan with these forecasts.
func ShortageOf(memory []Forecast) (s Shortage) {
	for i := range memory {
		f := &memory[i]
		if !f.Fits() {
			s.Missing += f.Floor - f.Limit
		}
		s.Moved += f.Moved()
		s.Seconds = max(s.Seconds, f.Seconds)
	}
	return s
}

// None reports whether every step takes what there is.
func (s Shortage) None() bool { return s.Missing == 0 && s.Moved == 0 }

func (s Shortage) Less(o Shortage) bool {
	return s.Missing < o.Missing || s.Missing == o.Missing && s.Seconds < o.Seconds
}
