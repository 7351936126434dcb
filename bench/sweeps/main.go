package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	trainer := flag.String("trainer", "trainer", "the program that is measured")
	out := flag.String("out", "", "folder for the queue and the runs (required)")
	halving := flag.Int("halving", 10, "sweeps that are halved")
	tpe := flag.Int("tpe", 20, "sweeps of tpe and of random")
	flag.Parse()
	if *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*trainer, *out, *halving, *tpe); err != nil {
		fmt.Fprintln(os.Stderr, "sweeps:", err)
		os.Exit(1)
	}
}

func run(program, out string, halving, tpe int) error {
	program, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	p := &trainer{dir: out}
	if p.path, err = filepath.Abs(program); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	if p.queue, err = filepath.Abs(filepath.Join(out, "queue")); err != nil {
		return err
	}
	if err := p.halving(halving); err != nil {
		return err
	}
	return p.tpe(tpe)
}

// vary is what the trials vary: four keys, of which the last two matter little.
var vary = []string{
	"optimizer.lr=log:1e-4..1e-1", "model.hidden=[32],[64],[128,64],[128,128]",
	"optimizer.weight_decay=log:1e-4..1", "schedule.warmup=0..200",
}

// trainer is the program, in a folder and with a queue of its own.
type trainer struct{ path, dir, queue string }

// trial is one of a sweep, as trainer sweep show --json has it.
type trial struct {
	Trial int
	Step  int
	Steps int
	Value *float64 // nil: it is not finite
}

// sweep trains a sweep to its end, and has its trials, the best first.
func (p *trainer) sweep(flags ...string) ([]trial, error) {
	args := []string{"sweep", "digits", "--wait", "--keep", "1"}
	for _, v := range vary {
		args = append(args, "--vary", v)
	}
	text, err := p.run(append(args, flags...)...)
	if err != nil {
		return nil, err
	}
	id := 0
	if _, err := fmt.Sscanf(text, "sweep %d", &id); err != nil {
		return nil, fmt.Errorf("which sweep is this? %s", text)
	}
	text, err = p.run("sweep", "show", fmt.Sprint(id), "--json")
	if err != nil {
		return nil, err
	}
	var trials []trial
	if err := json.Unmarshal([]byte(text), &trials); err != nil {
		return nil, fmt.Errorf("sweep show %d: %w", id, err)
	}
	if len(trials) == 0 || trials[0].Value == nil {
		return nil, fmt.Errorf("sweep %d has no winner", id)
	}
	return trials, nil
}

// run has what the program prints.
func (p *trainer) run(args ...string) (string, error) {
	c := exec.Command(p.path, args...)
	c.Dir, c.Env = p.dir, append(os.Environ(), "BERTH_QUEUE="+p.queue)
	var said bytes.Buffer
	c.Stderr = &said
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("trainer %s: %w\n%s%s", strings.Join(args, " "), err, text, said.String())
	}
	return string(text), nil
}

// halving compares sweeps that are halved with the same ones trained whole.
func (p *trainer) halving(seeds int) error {
	const trials, amongBest = 81, 4 // 4 are the best 5 % of 81
	met := 0
	if seeds > 0 {
		fmt.Printf("| seed | share of the steps | winner's place | its val_loss | the best of all |\n|---|---|---|---|---|\n")
	}
	for seed := 1; seed <= seeds; seed++ {
		flags := []string{"--trials", fmt.Sprint(trials), "--seed", fmt.Sprint(seed)}
		whole, err := p.sweep(flags...)
		if err != nil {
			return err
		}
		halved, err := p.sweep(append(flags, "--halving")...)
		if err != nil {
			return err
		}
		steps, of := 0, 0
		for _, t := range halved {
			steps += t.Step
			of += t.Steps
		}
		place := 1
		for whole[place-1].Trial != halved[0].Trial {
			place++
		}
		if place <= amongBest {
			met++
		}
		fmt.Printf("| %d | %.1f%% | %d | %.4f | %.4f |\n", seed, 100*float64(steps)/float64(of), place, *halved[0].Value, *whole[0].Value)
	}
	if seeds > 0 {
		fmt.Printf("\nThe winner is among the best %d of %d in %d of %d sweeps.\n\n", amongBest, trials, met, seeds)
	}
	return nil
}

// tpe compares the best trial of two strategies.
func (p *trainer) tpe(seeds int) error {
	rank := map[string]float64{}
	strategies := []string{"tpe", "random"}
	if seeds > 0 {
		fmt.Printf("| seed | tpe | random |\n|---|---|---|\n")
	}
	for seed := 1; seed <= seeds; seed++ {
		var best []float64
		for _, strategy := range strategies {
			trials, err := p.sweep("--trials", "40", "--strategy", strategy, "--seed", fmt.Sprint(seed), "--set", "train.epochs=10")
			if err != nil {
				return err
			}
			best = append(best, *trials[0].Value)
		}
		for i, strategy := range strategies {
			switch other := best[1-i]; {
			case best[i] < other:
				rank[strategy]++
			case best[i] > other:
				rank[strategy] += 2
			default:
				rank[strategy] += 1.5
			}
		}
		fmt.Printf("| %d | %.4f | %.4f |\n", seed, best[0], best[1])
	}
	if seeds > 0 {
		fmt.Printf("\nMean rank: tpe %.2f, random %.2f.\n", rank["tpe"]/float64(seeds), rank["random"]/float64(seeds))
	}
	return nil
}
