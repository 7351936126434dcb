package console

import "context"

// Wait is what read gives, such as a line that a user types. It does not wait for it once
// ctx is done; read is then left alone, until the process ends.
func Wait[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type given struct {
		value T
		err   error
	}
	came := make(chan given, 1)
	go func() {
		v, err := read()
		came <- given{v, err}
	}()
	select {
	case g := <-came:
		return g.value, g.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
