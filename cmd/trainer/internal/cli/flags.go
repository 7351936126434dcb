package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagError words a mistake about a flag of c.
func FlagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		err = fmt.Errorf("--%s %s: expected %s", bad.GetFlag().Name, bad.GetValue(), expected(bad.GetFlag().Value.Type()))
	}
	return Usagef("%w: see %s --help", err, c.CommandPath())
}

// expected words the values of a flag's type.
func expected(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number of at least 0"
	case "float64":
		return "a number"
	case "duration":
		return "a time, such as 55m or 1h30m"
	case "bool":
		return "true or false"
	}
	return kind
}
