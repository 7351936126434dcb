//go:build unix

package checkpoint

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/shape"
)

// BenchmarkSaveGPT2 saves the state of a gpt2 with AdamW, 1.49 GB, into a new
// file and, in turns, PyTorch's torch.save and fsync of the same
// tensors in the same folder, where a Python is installed that has it. The
// metrics are medians, in seconds, and how many times as long PyTorch took.
//
//	go test ./checkpoint -run '^$' -bench SaveGPT2 -benchtime 5x
func BenchmarkSaveGPT2(b *testing.B) {
	src := newGPT2(b)
	dir := b.TempDir()
	torch, err := newTorch(b, src, dir)
	if err != nil {
		b.Logf("PyTorch is left out: %v", err)
	}
	var ours, theirs []float64
	turn := func(i int) {
		start := time.Now()
		if err := src.save(filepath.Join(dir, "c.db")); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(start).Seconds())
		if torch != nil {
			theirs = append(theirs, torch.save(b))
		}
	}
	turn(0) // memory that nobody has touched yet is slow
	ours, theirs = nil, nil
	b.SetBytes(int64(len(src.state)))
	b.ResetTimer()
	for i := range b.N {
		turn(i)
	}
	b.ReportMetric(median(ours), "s/save")
	if torch != nil {
		b.ReportMetric(median(theirs), "s/torch")
		b.ReportMetric(median(theirs)/median(ours), "torch/save")
	}
	b.Logf("saves %.2f s, PyTorch's %.2f s", ours, theirs)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// gpt2 is a Lender: parameters and both of AdamW's moments.
type gpt2 struct {
	tensors []Tensor
	at      map[string]int
	state   []byte
}

func newGPT2(b *testing.B) *gpt2 {
	s := &gpt2{at: map[string]int{}}
	n := 0
	add := func(name string, shapes ...shape.Meta) {
		for i, m := range shapes {
			x := Tensor{fmt.Sprint(name, ".", i), m, "parameter"}
			s.at[x.Name] = n
			n += int(m.Bytes())
			s.tensors = append(s.tensors, x)
		}
	}
	const width = 768
	for _, part := range []string{"weight", "m", "v"} {
		add(part+".embedding", shape.F32(50257, width), shape.F32(1024, width), shape.F32(width), shape.F32(width))
		for l := range 12 {
			name := fmt.Sprint(part, ".", l)
			add(name+".norms", shape.F32(width), shape.F32(width), shape.F32(width), shape.F32(width))
			add(name+".attention", shape.F32(width, 3*width), shape.F32(3*width), shape.F32(width, width), shape.F32(width))
			add(name+".mlp", shape.F32(width, 4*width), shape.F32(4*width), shape.F32(4*width, width), shape.F32(width))
		}
	}
	var err error
	// Not in Go's heap, as a device's memory is not: it counts for how much
	// garbage is allowed.
	if s.state, err = syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { syscall.Munmap(s.state) })
	x := uint64(1)
	for i := 0; i < n; i += 4 { // numbers in 1 to 2
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint32(s.state[i:], 0x3f800000|uint32(x>>41))
	}
	return s
}

func (s *gpt2) Tensors() []Tensor { return s.tensors }

func (s *gpt2) Read(name string, off int64, dst []byte) error {
	copy(dst, s.state[s.at[name]+int(off):])
	return nil
}

// Lend is what a state that is staged whole does.
func (s *gpt2) Lend(name string, off int64, n int) ([]byte, error) {
	at := s.at[name] + int(off)
	return s.state[at : at+n], nil
}

// save makes a file of one checkpoint, and deletes it.
func (s *gpt2) save(path string) error {
	db, err := Open(path, OpenOptions{})
	if err != nil {
		return err
	}
	if _, err := db.Save(ctxForever, Manifest{}, s); err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return os.Remove(path)
}

// torchSaves saves tensors each time it reads a line, and prints the seconds.
const torchSaves = `
import os, sys, time, torch
folder, *sizes = sys.argv[1:]
sizes = [int(s) for s in sizes]
whole = torch.from_file(folder + "/state", size=sum(sizes), dtype=torch.float32)
state = {str(i): t.clone() for i, t in enumerate(whole.split(sizes))}
os.remove(folder + "/state")
print("ready", flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    with open(folder + "/torch.pt", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())
    took = time.perf_counter() - start
    os.remove(folder + "/torch.pt")
    print(took, flush=True)
`

// torchProcess is a Python that has the state in memory.
type torchProcess struct {
	in  io.Writer
	out *bufio.Reader
}

func newTorch(b *testing.B, s *gpt2, dir string) (*torchProcess, error) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import torch").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		return nil, fmt.Errorf("no python3 can import torch: on Debian, apt-get install python3-torch")
	}
	if err := os.WriteFile(filepath.Join(dir, "state"), s.state, 0o644); err != nil {
		return nil, err
	}
	args := []string{"-c", torchSaves, dir}
	for _, t := range s.tensors {
		args = append(args, fmt.Sprint(t.Meta.Bytes()/4))
	}
	c := exec.Command(python, args...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		in.Close()
		c.Wait()
	})
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &torchProcess{in, bufio.NewReader(out)}
	_, err = p.out.ReadString('\n')
	return p, err
}

// save is how long it takes, in seconds.
func (p *torchProcess) save(b *testing.B) (took float64) {
	if _, err := fmt.Fprintln(p.in, "save"); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fscanln(p.out, &took); err != nil {
		b.Fatal(err)
	}
	return took
}
