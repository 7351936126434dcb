package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "number of turns of each program")
	flag.Float64Var(&o.seconds, "seconds", 3, "time to measure for in each turn")
	flag.IntVar(&o.threads, "threads", 2, "threads of every program")
	flag.BoolVar(&o.ops, "ops", false, "measure single ops, for opbyop.md, in place of training steps")
	flag.BoolVar(&o.alone, "own", false, "measure Berth alone, a server and steps in little memory, for performance.md, in place of training steps")
	flag.StringVar(&o.only, "only", "", "workloads, separated by commas (default all)")
	flag.StringVar(&o.root, "root", "../..", "folder of Berth's source")
	flag.StringVar(&o.docs, "docs", "", "folder to write results to (default docs in -root)")
	flag.StringVar(&o.from, "from", "", "file of earlier results to write tables and chart from, instead of measuring")
	flag.StringVar(&o.python, "python", "", "a Python that has PyTorch (default python3 or /usr/bin/python3)")
	flag.StringVar(&o.llmc, "llmc", "", "llm.c's train_gpt2, built for the CPU")
	flag.StringVar(&o.lock, "lock", "", "file to lock during each turn, if others measure on this machine too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run measures, or reads earlier results, and writes tables and chart.
func run(ctx context.Context, o options, log io.Writer) error {
	if o.docs == "" {
		o.docs = filepath.Join(o.root, "docs")
	}
	switch {
	case o.ops:
		return compareOps(ctx, o, log)
	case o.alone:
		return measureOwn(ctx, o, log)
	}
	var rep report
	var err error
	if o.from != "" {
		rep, err = readReport(o.from)
	} else {
		rep, err = compare(ctx, o, log)
	}
	if err != nil {
		return err
	}
	if err := rep.markdown(log); err != nil {
		return err
	}
	return rep.write(o.docs)
}

// compare builds the programs that are there and gives them their turns.
func compare(ctx context.Context, o options, log io.Writer) (rep report, err error) {
	names, err := o.workloads()
	if err != nil {
		return rep, err
	}
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ps, err := programs(ctx, o, dir, names, log)
	if err != nil {
		return rep, err
	}
	t := turns{options: o, log: log, programs: ps}
	for round := range o.rounds {
		for _, w := range names {
			err := t.all(ctx, w, round)
			if ctx.Err() != nil && len(t.measured) > 0 {
				fmt.Fprintln(log, "interrupted: writing the turns until now")
				return newReport(t), nil
			}
			if err != nil {
				return rep, err
			}
		}
	}
	return newReport(t), nil
}

// workloads are the names to measure.
func (o options) workloads() ([]string, error) {
	if o.rounds < 1 || !(o.seconds > 0) || o.threads < 1 {
		return nil, errors.New("-rounds, -seconds and -threads must be more than 0")
	}
	var all []string
	for _, t := range targets {
		all = append(all, t.workload)
	}
	if o.only == "" {
		return all, nil
	}
	names := strings.Split(o.only, ",")
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("no workload %q: there are %s", n, strings.Join(all, ", "))
		}
	}
	return names, nil
}

// programs are the programs that can run here. Berth must be one of them. The
// others that cannot run are logged.
func programs(ctx context.Context, o options, dir string, names []string, log io.Writer) ([]program, error) {
	berth, err := newBerth(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	ps := berth
	leftOut := func(who string, err error) {
		if err != nil {
			fmt.Fprintf(log, "%s is left out: %v\n", who, err)
		}
	}
	torch, err := newTorch(ctx, o, log)
	leftOut(torchName, err)
	ps = append(ps, torch...)
	if slices.Contains(names, "mlp") {
		gomlx, err := newGoMLX(ctx, o, dir)
		leftOut(gomlxName, err)
		ps = append(ps, gomlx...)
	}
	if slices.Contains(names, "gpt2") {
		llmc, err := newLLMC(o, dir)
		leftOut(llmcName, err)
		ps = append(ps, llmc...)
	}
	return ps, nil
}
