package datasets

import "context"

// pieceBytes is the most bytes that are handled before the context is asked
// whether to go on.
const pieceBytes = 256 << 10

// inPieces calls f for consecutive ranges of n things, each of at most piece of
// them. Once ctx is done it fails with the cause.
func inPieces(ctx context.Context, n, piece int, f func(from, to int) error) error {
	for from := 0; from < n; from += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(from, min(n, from+piece)); err != nil {
			return err
		}
	}
	return nil
}
