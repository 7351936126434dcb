package cli

import (
	"strconv"

	"github.com/berth-ml/berth/configs"
)

// Size is a flag with a number of bytes.
type Size int64

// Set reads the flag's value.
func (f *Size) Set(text string) error {
	v, err := configs.ParseSize(text)
	*f = Size(v)
	return err
}

// String is the flag's value; empty for 0.
func (f *Size) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*f), 10)
}

// Type is the name of the flag's value.
func (*Size) Type() string { return "SIZE" }

// Expected words the flag's values.
func (*Size) Expected() string { return "a number of bytes such as 512MiB or 2GB" }
