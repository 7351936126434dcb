package configs

// retiredVariables set no key any more, by what to do in place of them. Set to nothing, they are
// passed over.
var retiredVariables = map[string]string{
	"BERTH_BLAS": "Berth's own kernels compute all products; unset it",
}
