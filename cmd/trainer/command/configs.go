package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/columns"
)

func configsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "configs",
		Short:   "List and show the configs that ship inside",
		Example: "  trainer configs list\n  trainer configs show digits > my.yaml",
	}
	cli.Group(c)
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the shipped configs", Example: "  trainer configs list", Args: cli.Args(0),
			RunE: func(c *cobra.Command, _ []string) error { return listConfigs(c.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "show NAME", Short: "Print a shipped config", Example: "  trainer configs show digits", Args: cli.Args(1),
			RunE: func(c *cobra.Command, args []string) error { return showConfig(c.OutOrStdout(), args[0]) },
		},
		&cobra.Command{
			Use: "reference", Short: "Print every key that a config may have", Example: "  trainer configs reference", Args: cli.Args(0),
			RunE: func(c *cobra.Command, _ []string) error {
				_, err := fmt.Fprint(console.NewProse(c.OutOrStdout()), configs.Reference())
				return err
			},
		})
	for _, sub := range c.Commands() {
		cli.Printing(sub)
	}
	return c
}

// listConfigs prints each shipped config's name and first sentence.
func listConfigs(w io.Writer) error {
	var rows [][]string
	for _, name := range configs.Names() {
		text, err := configs.Source(name)
		if err != nil {
			return err
		}
		rows = append(rows, []string{name, firstComment(string(text))})
	}
	_, err := io.WriteString(w, columns.Format(rows, columns.Layout{Cut: []int{1}, Prose: []int{1}, Width: console.Room(w)}))
	return err
}

func showConfig(w io.Writer, name string) error {
	text, err := configs.Source(name)
	if err != nil {
		return cli.Usage(err)
	}
	_, err = w.Write(text)
	return err
}

// firstComment is the first sentence of the comment that a config begins with.
func firstComment(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.TrimSpace(rest))
	}
	all := strings.Join(words, " ")
	if i := strings.Index(all, ". "); i >= 0 {
		all = all[:i+1]
	}
	return all
}
