package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// ShowOptional makes the help of c and of its commands show a flag whose value may be left
// out as it is written: --watch[=TIME], with the equals sign that such a value needs.
func ShowOptional(c *cobra.Command) {
	cobra.AddTemplateFunc("optional", func(usages string) string {
		return optionalValue.ReplaceAllStringFunc(usages, func(shown string) string {
			m := optionalValue.FindStringSubmatch(shown)
			written := m[1] + "[=" + m[2] + "]"
			return written + strings.Repeat(" ", len(shown)-len(written))
		})
	})
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), "Flags.FlagUsages |", "Flags.FlagUsages | optional |"))
}

// optionalValue is how a flag whose value may be left out is listed by itself.
var optionalValue = regexp.MustCompile(`(--[a-z-]+) ([A-Z]+)\[=[^\]]*\]`)
