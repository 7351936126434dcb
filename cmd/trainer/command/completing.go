package command

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
)

// completing has the Tab key complete the arguments of c and of its commands, by the words
// of their Use lines, and the values of their flags.
func completing(c *cobra.Command) {
	for _, sub := range c.Commands() {
		completing(sub)
	}
	if words := strings.Fields(c.Use)[1:]; c.ValidArgs == nil && c.ValidArgsFunction == nil {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			for i, word := range words {
				if i == len(args) || i < len(args) && strings.HasSuffix(word, "…") {
					if word == "A" || word == "B" {
						return completedCheckpoints(c, []string{runOf(c, word, args)}, begun)
					}
					return completed(word, begun)
				}
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, list := range map[string]cobra.CompletionFunc{"set": completedKeys, "vary": completedKeys, "checkpoint": completedCheckpoints} {
		if c.Flags().Lookup(flag) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(flag, list); err != nil {
			panic("BUG: " + err.Error())
		}
	}
}

// completed are the values for a word of a Use line that begin as a user typed.
func completed(word, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch word = strings.TrimSuffix(word, "…"); {
	case strings.HasSuffix(word, "NAME"):
		shipped := beginning(configs.Names(), begun)
		if word == "NAME" {
			return shipped, cobra.ShellCompDirectiveNoFileComp
		}
		if strings.Contains(word, "FILE") {
			return shipped, cobra.ShellCompDirectiveDefault
		}
		return placed(begun, shipped, isYAML)
	case word == "RUN":
		if begun == "" {
			begun = filepath.Join("runs", begun) + string(filepath.Separator)
		}
		return placed(begun, nil, func(path string, e fs.DirEntry) bool { return e.IsDir() && rundir.IsRun(path) })
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// runOf is the run that has the checkpoint A or B of diff.
func runOf(c *cobra.Command, word string, args []string) string {
	if with, _ := c.Flags().GetString("with"); word == "B" && with != "" {
		return with
	}
	return args[0]
}

// isYAML reports whether a file is probably a config.
func isYAML(path string, e fs.DirEntry) bool {
	return !e.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

// completedWorkloads are what bench measures: its workloads, and configs.
func completedWorkloads(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	for _, w := range bench.Workloads() {
		names = append(names, w.Name)
	}
	return placed(begun, beginning(append(names, configs.Names()...), begun), isYAML)
}

// beginning are the words that begin as a user typed.
func beginning(words []string, begun string) (list []cobra.Completion) {
	for _, word := range words {
		if strings.HasPrefix(word, begun) {
			list = append(list, word)
		}
	}
	return list
}

// placed adds to a list the paths that begin as a user typed and are wanted, and the
// folders that may hold others.
func placed(begun string, list []cobra.Completion, wanted func(path string, e fs.DirEntry) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, _ := filepath.Split(begun)
	entries, _ := os.ReadDir(filepath.Clean(dir)) // none where there is no such folder
	folders := 0
	for _, e := range entries {
		path := dir + e.Name()
		switch {
		case !strings.HasPrefix(path, begun) || strings.HasPrefix(e.Name(), ".") && begun == dir:
		case wanted(path, e):
			list = append(list, path)
		case e.IsDir():
			list = append(list, path+string(filepath.Separator))
			folders++
		}
	}
	if folders > 0 { // a user goes on typing behind a folder
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completedKeys are the keys of a config, for --set and --vary.
func completedKeys(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := beginning(configs.Keys(), begun)
	for i, key := range list {
		list[i] = key + "="
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completedCheckpoints are the checkpoints of the run that is the first argument, for
// --checkpoint and diff.
func completedCheckpoints(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	path := args[0]
	if rundir.IsRun(path) {
		path = rundir.CheckpointPath(path)
	}
	db, err := checkpoint.Open(path, checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer db.Close()
	all, _, _ := db.List() // of a damaged file, those that can be read
	best := checkpoint.BestOf(all)
	var list []cobra.Completion
	for _, m := range all {
		about := fmt.Sprintf("step %d", m.Step)
		if m.ID == best {
			about += ", the best"
		}
		list = append(list, cobra.CompletionWithDesc(fmt.Sprint(m.ID), about))
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
