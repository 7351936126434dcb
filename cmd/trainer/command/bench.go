package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/units"
)

// quickest are the workloads that bench measures without names.
var quickest = []string{"mlp", "cnn", "gpt-nano"}

func benchCommand(stop *signals.Stop) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench [NAME|CONFIG...]",
		Short: "Measure how fast this machine trains",
		Long: "Train workloads on fixed random batches, and print the time of a step, samples per second, the share of this machine's speed that the model's arithmetic reaches, and memory. Without names it measures the quickest: " +
			strings.Join(quickest, ", ") + ". A config is measured on its own data, with its loss, optimizer, batch, microbatches and precision; the rest is as the flags say. Samples of different lengths have a line for each bucket. docs/performance.md explains the numbers, --scaling, and steps of several processes.\n\nWorkloads, all with AdamW:\n" + benchList(),
		Example: "  trainer bench\n  trainer bench mlp cnn gpt-nano gpt-small llama-small resnet-18 vit-tiny gpt2\n  trainer bench my.yaml --devices cpu:2\n  trainer bench mlp gpt2 --seconds 10 --threads 2 --json\n  trainer bench gpt-nano --profile\n  trainer bench gpt-small --microbatches 4 --device-memory 50%\n  trainer bench gpt-small --scaling --svg scaling.svg\n  mpirun -n 2 trainer bench gpt-small --microbatches 8 --reduction tree",
	}
	var o bench.RunOptions
	benchFlags(c, &o)
	faults := addFaults(c)
	var scaling scalingFlags
	scaling.add(c)
	var serving servingFlags
	serving.add(c)
	generates := c.Flags().Bool("generate", false, "measure how fast workloads of text generate tokens")
	c.Flags().StringVar(&o.Weights, "weights", "", "with --generate: have the weights in memory as `TYPE`: float32, bf16 or int8")
	linked := c.Flags().Bool("link", false, "measure how fast processes of mpirun or srun send to each other")
	asJSON := c.Flags().Bool("json", false, "print JSON")
	cli.Rare(c, "link", "schedule", "reduction", "replicas", "shard", "recompute", "watch", "weights")
	c.ValidArgsFunction = completedWorkloads
	c.RunE = func(c *cobra.Command, args []string) error {
		failed := cmp.Or(checkBench(c, o), serving.check(c), scaling.check(c, args))
		if *linked && failed == nil {
			return benchLink(c, args, o.Timeout, *asJSON)
		}
		all := training{stop: stop, timeout: o.Timeout}
		return all.together(c, func() error {
			if err := all.checkBench(c, failed); err != nil {
				return err
			}
			if o.Weights != "" && !*generates {
				return cli.Usagef("--weights has a meaning only with --generate; give --generate too, or leave --weights out")
			}
			if *generates {
				return benchGenerate(c, args, o, *asJSON)
			}
			if serving.on {
				return serving.run(c, args, o, *asJSON)
			}
			if scaling.on {
				return scaling.run(c, args, o, *asJSON)
			}
			if len(args) == 0 {
				args = quickest
			}
			var err error
			if o.Faults, err = faults.parse(); err != nil {
				return err
			}
			rs, err := runBench(c, args, o, &all)
			if err != nil || all.quiet { // rank 0 prints
				return byFault(err)
			}
			return printResults(c, rs, *asJSON, printBench)
		})
	}
	return c
}

// benchFlags adds the flags that say how a workload is trained.
func benchFlags(c *cobra.Command, o *bench.RunOptions) {
	c.Flags().Float64Var(&o.Seconds, "seconds", 3, "measure each workload for at least `N` seconds")
	c.Flags().IntVar(&o.Steps, "steps", 0, "measure `N` steps in place of --seconds")
	c.Flags().IntVar(&o.Microbatches, "microbatches", 1, "cut each batch into `N` equal pieces")
	c.Flags().IntVar(&o.Threads, "threads", 0, fmt.Sprintf("`N` worker threads, at most %d; 0: one for each core", configs.MaxThreads))
	c.Flags().StringVar(&o.Devices, "devices", "cpu", "train on `DEVICES`: cpu, or cpu:2 for two")
	c.Flags().BoolVar(&o.ShareDevice, "share-device", false, "let several devices of opencl be on one physical device, for tests")
	c.Flags().IntVar(&o.Stages, "stages", 0, "cut the model into `N` stages; 0: one for each device")
	c.Flags().StringVar(&o.Schedule, "schedule", "1f1b", "run the microbatches by the schedule `NAME`: gpipe, 1f1b, interleaved or zb-h1")
	c.Flags().StringVar((*string)(&o.Reduction), "reduction", "order", "sum the microbatches by `WAY`: order or tree")
	c.Flags().IntVar(&o.Replicas, "replicas", 1, "train `N` replicas of the model; more than 1 need --reduction tree")
	c.Flags().StringVar((*string)(&o.Shard), "shard", "none", "divide a `PART` of the model among replicas: none or optimizer")
	c.Flags().BoolVar(&o.Profile, "profile", false, "time every kernel and print the sum of each kind")
	c.Flags().DurationVar(&o.Watch, "watch", 0, "look at the losses once in `TIME` (10ms without one), and print the CPU time of a look")
	c.Flags().Lookup("watch").NoOptDefVal = "10ms"
	c.Flags().BoolVar(&o.OpByOp, "op-by-op", false, "run each op by itself, and check that its results are finite")
	c.Flags().StringVar((*string)(&o.Recompute), "recompute", "none", "`KIND` of activations that backward computes again to save memory: none, cheap or block")
	c.Flags().StringVar(&o.Precision, "precision", "float32", "number `FORMAT` of products: float32 or bf16")
	c.Flags().Var((*cli.Size)(&o.HostMemory), "host-memory", "most host memory, a `SIZE` such as 1GiB; tensors beyond it go to a file")
	c.Flags().StringVar(&o.SpillDir, "spill-dir", "", "folder `DIR` of the file that --host-memory needs")
	c.Flags().Var(memoryFlag{&o.DeviceMemory}, "device-memory", "`SIZE` of memory that each device may use: 64MiB, or 50% of what the plan takes without a limit")
	c.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "the longest `TIME` that one operation of a device may take")
}

// checkBench refuses flags that say nothing or two things, and variables that
// bench does not read.
func checkBench(c *cobra.Command, o bench.RunOptions) error {
	steps, seconds := c.Flags().Changed("steps"), c.Flags().Changed("seconds")
	switch {
	case steps && seconds:
		return cli.Usagef("--steps and --seconds exclude each other; give one")
	case steps && o.Steps < 1:
		return cli.Usagef("--steps %d: give at least 1, or leave it out to measure for --seconds", o.Steps)
	case seconds && o.Seconds <= 0:
		return cli.Usagef("--seconds %v: give a number above 0", o.Seconds)
	case c.Flags().Changed("timeout") && o.Timeout <= 0:
		return cli.Usagef("--timeout %v: give a time above 0", o.Timeout)
	}
	if pairs := configs.KeyVariables(os.Environ()); len(pairs) > 0 {
		return cli.Usagef("%s: bench takes no keys from variables: unset them, and use flags of bench instead", strings.Join(pairs, ", "))
	}
	return nil
}

// memoryFlag is a flag with a limit on a device's memory.
type memoryFlag struct{ *configs.Memory }

// Set reads the flag's value.
func (f memoryFlag) Set(text string) (err error) {
	*f.Memory, err = configs.ParseMemory(text)
	return err
}

// String is the flag's value; empty without a limit.
func (f memoryFlag) String() string {
	if f.Memory == nil || *f.Memory == (configs.Memory{}) {
		return ""
	}
	return f.Memory.String()
}

// Type is the name of the flag's value.
func (memoryFlag) Type() string { return "SIZE" }

// Expected words the flag's values.
func (memoryFlag) Expected() string {
	return "a size of at least 64KiB, such as 64MiB, or a percentage such as 50%"
}

// printBench prints the table, and the profiles if there are any.
func printBench(w io.Writer, rs []bench.Result, width int) error {
	if err := bench.WriteTable(w, rs, width); err != nil {
		return err
	}
	for _, r := range rs {
		if r.Profile == nil {
			continue
		}
		if err := bench.WriteProfile(w, r, width); err != nil {
			return err
		}
	}
	return nil
}

// benchList describes the workloads, a line each.
func benchList() string {
	var lines []string
	width := 0
	for _, w := range bench.Workloads() {
		width = max(width, len(w.Name))
	}
	for _, w := range bench.Workloads() {
		lines = append(lines, fmt.Sprintf("  %-*s  %s, batch %d", width, w.Name, w.About, w.Batch))
	}
	return strings.Join(lines, "\n")
}

// workloads looks the named workloads up, and opens the data of configs.
func workloads(c *cobra.Command, names []string) (ws []bench.Workload, err error) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, cli.Usagef("%s is named twice: name it once; to measure it longer, raise --seconds", name)
		}
		list, err := workload(c, name)
		if err != nil {
			return nil, err
		}
		ws = append(ws, list...)
	}
	return ws, nil
}

// workload is the named one, or those of a config: one, or one for each bucket of its data.
func workload(c *cobra.Command, name string) (ws []bench.Workload, err error) {
	w, unknown := bench.Lookup(name)
	if unknown == nil {
		return []bench.Workload{w}, nil
	}
	cfg, err := configs.Load(name, configs.Overlay{})
	if errors.Is(err, configs.ErrNotFound) && !strings.ContainsAny(name, `/\.`) {
		return nil, cli.Usagef("%w; or a config", unknown)
	}
	if err != nil {
		return nil, cli.Usage(err)
	}
	done := phase.Wait(c.Context(), c.ErrOrStderr(), "reading the data")
	ws, err = bench.Of(c.Context(), cfg)
	done()
	return ws, usageOf(err)
}

// asConfigured takes the microbatches and the precision of a config where no flag gives them.
func asConfigured(c *cobra.Command, w bench.Workload, o bench.RunOptions) bench.RunOptions {
	if w.Microbatches > 0 && !c.Flags().Changed("microbatches") {
		o.Microbatches = w.Microbatches
	}
	if w.Precision != "" && !c.Flags().Changed("precision") {
		o.Precision = w.Precision
	}
	return o
}

// runBench measures the named workloads one after the other. All names are
// looked up, and the options tried, before anything runs.
func runBench(c *cobra.Command, names []string, o bench.RunOptions, all *training) ([]bench.Result, error) {
	o = all.benchOptions(c, o)
	ws, err := checkedWorkloads(c, names, o)
	if err = all.agree(c.Context(), "its workloads", err, o.Facts(ws...)...); err != nil {
		return nil, err
	}
	progress := c.ErrOrStderr()
	if all.quiet {
		progress = io.Discard
	}
	return measurement[bench.Result]{
		of:      func(w bench.Workload) (bench.Result, error) { return bench.Run(c.Context(), w, asConfigured(c, w, o)) },
		rate:    func(r bench.Result) string { return units.Milliseconds(r.StepMS.Median) + " a step" },
		sharing: all.ranks != nil,
		tell: func(r bench.Result) {
			for _, text := range r.Notes {
				fmt.Fprintln(c.ErrOrStderr(), text)
			}
			for _, text := range append(r.Retried, r.Missed...) {
				cli.Tell(c, c.ErrOrStderr(), text)
			}
		},
	}.all(progress, ws)
}

// checkedWorkloads looks the named workloads up, and tries the options.
func checkedWorkloads(c *cobra.Command, names []string, o bench.RunOptions) ([]bench.Workload, error) {
	ws, err := workloads(c, names)
	if err != nil {
		return nil, err
	}
	for _, w := range ws {
		if err := asConfigured(c, w, o).Check(w); err != nil {
			return nil, usageOf(err)
		}
	}
	return ws, nil
}
