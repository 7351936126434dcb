package cli

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/internal/columns"
)

// ownName is the name that help and messages are written with.
const ownName = "trainer"

var inHelp = regexp.MustCompile(`\b` + ownName + `\b`)

// Rename gives the program of the commands under root another name, in all their help.
func Rename(root *cobra.Command, name string) {
	if name == ownName {
		return
	}
	root.Use = name
	eachCommand(root, func(c *cobra.Command) {
		for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
			*text = inHelp.ReplaceAllLiteralString(*text, name)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = inHelp.ReplaceAllLiteralString(f.Usage, name) })
	})
}

func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// Named is a message in which advice such as "trainer resume" has the name of the
// program that root is. Other words, such as paths, stay as they are.
func Named(root *cobra.Command, message string) string {
	name := root.Name()
	if name == ownName {
		return message
	}
	for _, sub := range root.Commands() {
		message = strings.ReplaceAll(message, ownName+" "+sub.Name(), name+" "+sub.Name())
	}
	return message
}

// Tell prints a message of the program of c.
func Tell(c *cobra.Command, w io.Writer, message string) {
	fmt.Fprintf(w, "%s: %s\n", c.Root().Name(), columns.Printed(Named(c.Root(), message)))
}

// Log prints a line of the log of a server, which c runs: with the time, as the logs of jobs have it.
func Log(c *cobra.Command, w io.Writer, message string) {
	fmt.Fprintf(w, "%s %s\n", time.Now().Format(time.DateTime), columns.Printed(Named(c.Root(), message)))
}
