//go:build !amd64

package vec

// AVX512 and AVX2 are for amd64; here they are as Generic.
var AVX512, AVX2 = Generic, Generic
