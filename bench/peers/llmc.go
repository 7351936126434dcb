package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// llmcWarm is the number of its first steps that do not count: in the first it
// allocates memory.
const llmcWarm = 2

// newLLMC prepares a folder in which llm.c's train_gpt2 finds a model and text.
// The program trains with batch 4 and 64 positions, as the workload gpt2 does.
func newLLMC(o options, dir string) ([]program, error) {
	if o.llmc == "" {
		return nil, errors.New("get github.com/karpathy/llm.c, build its CPU training with OpenMP as its README says, and give the program by -llmc PATH/train_gpt2")
	}
	bin, err := filepath.Abs(o.llmc)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("-llmc: %w", err)
	}
	folder := filepath.Join(dir, "llmc")
	if err := writeLLMC(folder); err != nil {
		return nil, err
	}
	run := func(ctx context.Context, _ string) (sample, error) { return runLLMC(ctx, bin, folder, o) }
	return []program{{family: llmcName, does: only("gpt2"), run: run}}, nil
}

// runLLMC lets it train until the time is over. By itself it would train 41
// steps, and write text in between.
func runLLMC(ctx context.Context, bin, folder string, o options) (s sample, err error) {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	c := exec.CommandContext(ctx, bin)
	c.Dir = folder
	c.Env = append(os.Environ(), "OMP_NUM_THREADS="+strconv.Itoa(o.threads))
	// Into a pipe it would print nothing until it ends; stdbuf makes it print
	// line by line.
	if stdbuf, err := exec.LookPath("stdbuf"); err == nil {
		c.Path, c.Args = stdbuf, []string{stdbuf, "-oL", bin}
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := c.Start(); err != nil {
		return s, err
	}
	times, loss := readLLMC(out, 1e3*o.seconds)
	enough()
	if err := c.Wait(); len(times) == 0 {
		return s, errors.Join(fmt.Errorf("%s printed no training step", bin), err)
	}
	slices.Sort(times)
	return sample{
		Version: llmcName, Steps: len(times), Loss: loss, PeakResidentBytes: peakResident(c),
		StepMS: stepMS{Median: times[len(times)/2], Min: times[0]},
	}, nil
}

// readLLMC reads lines like "step 3: train loss 5.1 (took 900.2 ms)" until the
// steps took enough ms together. It returns each step's time and the last loss.
func readLLMC(r io.Reader, enough float64) (times []float64, loss float64) {
	lines, sum := bufio.NewScanner(r), 0.0
	for sum < enough && lines.Scan() {
		var step int
		var took float64
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "step %d: train loss %g (took %g ms)", &step, &loss, &took); n == 3 && step >= llmcWarm {
			times = append(times, took)
			sum += took
		}
	}
	return times, loss
}

// writeLLMC writes a GPT-2 of random weights and random tokens, in the formats
// and under the names that llm.c reads: 256 int32 of header, then the data.
func writeLLMC(folder string) error {
	const (
		positions, vocabulary, padded, layers, heads, width = 1024, 50257, 50304, 12, 12, 768
		modelMagic, modelVersion                            = 20240326, 3
		textMagic, textVersion, tokens                      = 20240520, 1, 1 << 16
	)
	text := filepath.Join(folder, "dev", "data", "tinyshakespeare")
	if err := os.MkdirAll(text, 0o755); err != nil {
		return err
	}
	floats := (padded+positions)*width + layers*(12*width*width+13*width) + 2*width
	r := rand.New(rand.NewPCG(1, 1))
	weight := func(b []byte) []byte { // evenly, about as wide as a normal distribution of 0.02
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(0.07*(r.Float32()-0.5)))
	}
	model := []int32{modelMagic, modelVersion, positions, vocabulary, layers, heads, width, padded}
	if err := writeHeaded(filepath.Join(folder, "gpt2_124M.bin"), model, floats, weight); err != nil {
		return err
	}
	token := func(b []byte) []byte { return binary.LittleEndian.AppendUint16(b, uint16(r.IntN(vocabulary))) }
	for _, part := range []string{"train", "val"} {
		file := filepath.Join(text, "tiny_shakespeare_"+part+".bin")
		if err := writeHeaded(file, []int32{textMagic, textVersion, tokens}, tokens, token); err != nil {
			return err
		}
	}
	return nil
}

// writeHeaded writes a header and n items; item appends one to a slice.
func writeHeaded(file string, header []int32, n int, item func([]byte) []byte) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	var full [256]int32
	copy(full[:], header)
	if err := binary.Write(w, binary.LittleEndian, full); err != nil {
		return err
	}
	for range n {
		if _, err := w.Write(item(w.AvailableBuffer())); err != nil {
			return err
		}
	}
	return w.Flush()
}
