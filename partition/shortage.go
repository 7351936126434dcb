package partition

// shortage is the cost of devices that are too small for a plan.
type shortage struct {
	missing int64   // bytes below the floors
	moved   int64   // bytes per step
	seconds float64 // of the slowest device
}

// shortageOf is the shortage of a plan with these forecasts.
func shortageOf(memory []Forecast) (s shortage) {
	for i := range memory {
		f := &memory[i]
		if !f.fits() {
			s.missing += f.Floor - f.Limit
		}
		s.moved += f.Moved()
		s.seconds = max(s.seconds, f.Seconds)
	}
	return s
}

// none reports whether every step takes what there is.
func (s shortage) none() bool { return s.missing == 0 && s.moved == 0 }

func (s shortage) less(o shortage) bool {
	return s.missing < o.missing || s.missing == o.missing && s.seconds < o.seconds
}
