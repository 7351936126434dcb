package cli

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

// allFlags is the flag that makes help list the rare flags, too.
const allFlags = "all"

func init() { cobra.EnableCommandSorting = false } // help has the order of AddCommand

// ShowHelp makes root and its commands print help that fits the terminal.
func ShowHelp(root *cobra.Command) {
	root.PersistentFlags().Bool(allFlags, false, "with --help: list every flag")
	root.PersistentFlags().Lookup(allFlags).Hidden = true
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_, _ = io.WriteString(c.OutOrStdout(), Help(c, console.Width(c.OutOrStdout()), allWanted(c))) // the stream keeps the error
	})
}

// allWanted reports whether --all is given.
func allWanted(c *cobra.Command) bool { return c.Root().PersistentFlags().Changed(allFlags) }

// CheckAll refuses --all without --help.
func CheckAll(c *cobra.Command) error {
	if !allWanted(c) || c.Name() == "help" {
		return nil
	}
	return Usagef("--all lists every flag beside --help; give %s --help --all, or leave --all out", c.CommandPath())
}

// The widths of help. A wider terminal has room for longer lines than are easy to read.
const (
	leastHelp = 40
	mostHelp  = 120
	mostName  = 24 // of a flag or a command that its text stands beside
)

// Help is the help of a command in lines of width characters: its text, how it is
// called, examples, subcommands and flags. With all, the rare flags are there, too.
func Help(c *cobra.Command, width int, all bool) string {
	p := page{width: max(leastHelp, min(width, mostHelp))}
	p.paragraphs(cmp.Or(c.Long, c.Short+"."))
	p.title("Usage")
	for _, line := range useLines(c) {
		p.hanging("  ", "    ", line)
	}
	p.title("Examples")
	for line := range strings.SplitSeq(strings.TrimRight(c.Example, "\n"), "\n") {
		p.example(line)
	}
	p.commands(c)
	hidden := p.flags(c, all)
	switch {
	case c.HasAvailableSubCommands():
		p.b.WriteString("\n")
		p.hanging("", "", fmt.Sprintf("%s COMMAND --help says more about a command.", c.CommandPath()))
	case hidden > 0:
		p.b.WriteString("\n")
		p.hanging("", "", fmt.Sprintf("%s: %s --help --all", units.Count(hidden, "more flag"), c.CommandPath()))
	}
	return p.b.String()
}

// useLines are the ways to call a command.
func useLines(c *cobra.Command) (lines []string) {
	if c.HasAvailableSubCommands() {
		lines = append(lines, c.CommandPath()+" COMMAND")
		if !strings.Contains(c.Use, " ") { // it does nothing itself
			return lines
		}
	}
	line := c.UseLine()
	if len(listedFlags(c)) == 0 {
		line = strings.TrimSuffix(line, " [flags]")
	}
	return append([]string{line}, lines...)
}

// page is help that is being written.
type page struct {
	b     strings.Builder
	width int
}

func (p *page) title(title string) { fmt.Fprintf(&p.b, "\n%s:\n", title) }

// hanging writes a text in lines that begin with a space of their own.
func (p *page) hanging(first, rest, text string) {
	indent := first
	for _, line := range columns.Wrap(text, p.width-utf8.RuneCountInString(rest)) {
		p.b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
		indent = rest
	}
}

// example writes an example. A line that is too long goes on behind a backslash, so that a
// shell takes it as it stands.
func (p *page) example(line string) {
	for utf8.RuneCountInString(line) > p.width {
		at := shellBreak(line, p.width-len(` \`))
		if at < 0 {
			break
		}
		p.b.WriteString(line[:at] + " \\\n")
		line = "    " + strings.TrimLeft(line[at:], " ")
	}
	p.b.WriteString(line + "\n")
}

// shellBreak is where a shell's line may be broken: the last space in width characters, or
// the first one, behind a word and outside quotes and comments; -1 where there is none.
func shellBreak(line string, width int) int {
	at, n, quote := -1, 0, rune(0)
	for i, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '#' && strings.HasSuffix(line[:i], " "):
			return at
		case c == ' ' && strings.TrimLeft(line[:i], " ") != "":
			if n > width && at >= 0 {
				return at
			}
			at = i
		}
		n++
	}
	return at
}

// listed is a line of a list: a word, and behind spaces what it means.
var listed = regexp.MustCompile(`^( +\S+ {2,})(\S.*)$`)

// paragraphs writes a text, each of whose lines is a paragraph.
func (p *page) paragraphs(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		switch m := listed.FindStringSubmatch(line); {
		case m != nil:
			p.hanging(m[1], strings.Repeat(" ", utf8.RuneCountInString(m[1])), m[2])
		case line == "":
			p.b.WriteString("\n")
		default:
			p.hanging("", "", line)
		}
	}
}

// entry is a command or a flag with its meaning.
type entry struct{ name, text string }

// entries writes a list. Names that are longer than most have a line of their own.
func (p *page) entries(list []entry, column int) {
	space := strings.Repeat(" ", column+4)
	for _, e := range list {
		if n := utf8.RuneCountInString(e.name); n <= column {
			p.hanging("  "+e.name+strings.Repeat(" ", column+2-n), space, e.text)
			continue
		}
		p.b.WriteString("  " + e.name + "\n")
		p.hanging(space, space, e.text)
	}
}

// column is the width that names of a list take.
func column(list []entry) (width int) {
	for _, e := range list {
		if n := utf8.RuneCountInString(e.name); n <= mostName {
			width = max(width, n)
		}
	}
	return width
}

// commands writes the subcommands of c by their groups.
func (p *page) commands(c *cobra.Command) {
	groups := c.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands"}}
	}
	var all []entry
	by := map[string][]entry{}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		e := entry{sub.Name(), sub.Short}
		all, by[sub.GroupID] = append(all, e), append(by[sub.GroupID], e)
	}
	for _, g := range groups {
		if list := by[g.ID]; len(list) > 0 {
			p.title(g.Title)
			p.entries(list, column(all))
		}
	}
}

// listedFlags are the flags of c that help may list.
func listedFlags(c *cobra.Command) (list []*pflag.Flag) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			list = append(list, f)
		}
	})
	return list
}

// leastGrouped is the fewest flags that are listed by their groups.
const leastGrouped = 7

// flags writes the flags of c by their groups, and returns how many it leaves out.
func (p *page) flags(c *cobra.Command, all bool) (hidden int) {
	list := listedFlags(c)
	if !all {
		list = slices.DeleteFunc(list, isRare)
		hidden = len(listedFlags(c)) - len(list)
	}
	var shown []entry
	by := make([][]entry, len(flagGroups))
	for _, f := range list {
		e, group := entry{flagName(f), flagText(f)}, 0
		if len(list) >= leastGrouped {
			group = groupOf(f.Name)
		}
		shown, by[group] = append(shown, e), append(by[group], e)
	}
	for i, g := range flagGroups {
		if len(by[i]) > 0 {
			p.title(g.title)
			p.entries(by[i], column(shown))
		}
	}
	return hidden
}

// flagName is a flag as it is written, with its value: --watch[=TIME] where the value may
// be left out.
func flagName(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value, _ := pflag.UnquoteUsage(f)
	switch {
	case value == "":
		return name
	case f.NoOptDefVal != "":
		return name + "[=" + value + "]"
	}
	return name + " " + value
}

// flagText is the meaning of a flag, with its default.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch d := f.DefValue; {
	case d == "" || d == "0" || d == "0s" || d == "false" || d == "[]":
		return text
	case strings.TrimSpace(d) == "":
		return fmt.Sprintf("%s (default %q)", text, d)
	default:
		return fmt.Sprintf("%s (default %s)", text, d)
	}
}
