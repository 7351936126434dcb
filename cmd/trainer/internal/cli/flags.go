package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/edit"
)

// FlagError words a mistake about a flag of c.
func FlagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &bad):
		f := bad.GetFlag()
		err = fmt.Errorf("--%s %s: expected %s", f.Name, bad.GetValue(), expected(f.Value))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		if now := cmp.Or(configs.RetiredFlag(name), retiredFlags[name]); now != "" {
			return Usagef("--%s is gone: %s", name, now)
		}
		if c.Name() == "submit" || c.Name() == "sweep" {
			if how := queuedFlags[name]; how != "" {
				return Usagef("trainer %s has no --%s: %s", c.Name(), name, how)
			}
		}
		if meant := meantBy(c, name); meant != "" {
			return Usagef("unknown flag: --%s; did you mean %s?", name, meant)
		}
	}
	return Usagef("%w: see %s --help", err, c.CommandPath())
}

// queuedFlags says how a job is given what a training is given by a flag.
var queuedFlags = map[string]string{
	"init": "a job is given its weights by a pipeline: trainer submit a file with jobs: {NAME: {train: CONFIG, init: ./FILE}}",
}

// CheckPaths refuses flags of c that name a file or a folder by an empty path.
func CheckPaths(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		switch {
		case f.Value.Type() != "string" || f.Value.String() != "":
		case strings.HasPrefix(what, "FILE"):
			err = Usagef("--%s '': the name is empty; name a file", f.Name)
		case what == "DIR":
			err = Usagef("--%s '': the name is empty; name a folder", f.Name)
		}
	})
	return err
}

// expected words the values that a flag takes: by itself, or by its type.
func expected(v pflag.Value) string {
	if own, ok := v.(interface{ Expected() string }); ok {
		return own.Expected()
	}
	switch v.Type() {
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
	case "intSlice":
		return "a whole number, or several with commas between"
	}
	return v.Type()
}

// meantBy suggests the flag, or the config's keys, that an unknown flag of c may
// mean; "" for none.
func meantBy(c *cobra.Command, name string) string {
	var keys []string
	if c.Flags().Lookup("set") != nil {
		keys = configs.KeysNear(name)
	}
	if flag := edit.Nearest(name, flagNames(c), len(name)/3); flag != "" && !exact(name, keys) {
		return "--" + flag
	}
	for i, k := range keys {
		keys[i] = "--set " + k + "=…"
	}
	return strings.Join(keys, " or ")
}

// exact reports whether the nearest key is the name, or ends in it.
func exact(name string, keys []string) bool {
	return len(keys) > 0 && (keys[0] == name || strings.HasSuffix(keys[0], "."+name))
}

func flagNames(c *cobra.Command) (names []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
