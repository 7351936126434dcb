package executor

import "time"

// ShortenDefaultTimeout makes DefaultTimeout shorter until undo is called.
func ShortenDefaultTimeout(d time.Duration) (undo func()) {
	defaultTimeout = d
	return func() { defaultTimeout = DefaultTimeout }
}

// HaveAvailable makes so many bytes the host's free memory until undo is called.
func HaveAvailable(bytes int64) (undo func()) {
	old := available
	available = func() (int64, error) { return bytes, nil }
	return func() { available = old }
}

// CompilingEnds reports whether a program was told to compile no more segments.
func (p *Program) CompilingEnds() bool { return p.beside.cancel.Load() }

// AwaitCompiled waits until the goroutine that compiles a program's segments has ended.
func (p *Program) AwaitCompiled() { <-p.beside.over }

// Forget takes a variable from the program, as if another rank had it.
func (p *Program) Forget(variable string) { delete(p.vars, variable) }

// MessageHosts is the bytes of host memory that messages of a program have.
func (p *Program) MessageHosts() (bytes int64) {
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for i := 0; t.message != nil && i < len(t.message.host); i++ {
				if h := t.message.host[i]; h.HostBuffer != nil {
					bytes += int64(len(h.Bytes()))
				}
			}
		}
	}
	return bytes
}

// Measured has the next step begin as if replicas had taken so long for a microbatch, for some steps.
func (p *Program) Measured(seconds []float64) {
	took := make([]float64, len(seconds))
	for r, s := range seconds {
		took[r] = s * float64(p.balancing.Shares()[r])
	}
	for range 9 {
		p.balancing.Took(took)
	}
}
