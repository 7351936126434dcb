package bench

import (
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
)

// TestGraphs checks every workload's size and arithmetic against formulas that
// know nothing of graphs.
func TestGraphs(t *testing.T) {
	gpt := func(layers, width, context, vocab int64) int64 {
		block := 2*2*width + (3*width*width + 3*width) + (width*width + width) + (4*width*width + 4*width) + (4*width*width + width)
		return vocab*width + context*width + layers*block + 2*width
	}
	// gptFlops: each weight of a product meets each token once forward and
	// twice backward; six products over the scores below the diagonal.
	gptFlops := func(layers, width, positions, batch, vocab int64) int64 {
		weights := layers*12*width*width + vocab*width
		return 6*weights*batch*positions + layers*6*batch*width*positions*(positions+1)
	}
	llamaWeights := func(width, hidden, keys int64) int64 { return 2*width*width + 2*width*keys + 3*width*hidden }
	llama := func(layers, width, hidden, keys, vocab int64) int64 {
		return vocab*width + layers*(llamaWeights(width, hidden, keys)+2*width) + width
	}
	llamaFlops := func(layers, width, hidden, keys, positions, batch, vocab int64) int64 {
		weights := layers*llamaWeights(width, hidden, keys) + vocab*width
		return 6*weights*batch*positions + layers*6*batch*width*positions*(positions+1)
	}
	// The first layer of mlp and cnn has no gradient of its input.
	mlp := 2*128*3*(784*512+512*256+256*10) - int64(2*128*784*512)
	conv1, conv2 := 9*32*28*28, 32*9*64*14*14
	cnn := int64(2 * 64 * (2*conv1 + 3*(conv2+64*7*7*128+128*10)))
	// A convolution of resnet-18: its multiply-adds, and its weights with those of its batchnorm.
	type conv struct{ times, in, out, kernel, side int64 }
	convs := []conv{{1, 3, 64, 3, 32}, {4, 64, 64, 3, 32}}
	for in, side := int64(64), int64(16); in < 512; in, side = 2*in, side/2 {
		convs = append(convs, conv{1, in, 2 * in, 3, side}, conv{3, 2 * in, 2 * in, 3, side}, conv{1, in, 2 * in, 1, side})
	}
	resnet, resnetFlops := int64(512*10+10), int64(2*32*3*512*10)
	for i, c := range convs {
		weights := c.times * c.in * c.out * c.kernel * c.kernel
		resnet += weights + 2*c.times*c.out
		ways := int64(3)
		if i == 0 {
			ways = 2 // the first has no gradient of its input
		}
		resnetFlops += 2 * 32 * ways * weights * c.side * c.side
	}
	const vitWidth, vitTokens = 192, 197
	vitBlock := int64(4*(vitWidth*vitWidth+vitWidth) + 8*vitWidth*vitWidth + 5*vitWidth + 4*vitWidth)
	vit := 12*vitBlock + (768+1)*vitWidth + vitWidth + vitTokens*vitWidth + 2*vitWidth + 1000*(vitWidth+1)
	vitFlops := int64(8 * (2*3*(12*12*vitWidth*vitWidth*vitTokens+vitWidth*1000) + 2*2*768*vitWidth*(vitTokens-1) + 12*6*2*vitWidth*vitTokens*vitTokens))
	want := map[string]struct{ parameters, flops int64 }{
		"mlp":         {784*512 + 512 + 512*256 + 256 + 256*10 + 10, mlp},
		"cnn":         {9*32 + 32 + 32*9*64 + 64 + 64*7*7*128 + 128 + 128*10 + 10, cnn},
		"gpt-nano":    {gpt(4, 128, 64, 65), gptFlops(4, 128, 64, 12, 65)},
		"gpt-small":   {gpt(6, 384, 256, 65), gptFlops(6, 384, 256, 8, 65)},
		"llama-small": {llama(6, 384, 1024, 128, 65), llamaFlops(6, 384, 1024, 128, 256, 8, 65)},
		"resnet-18":   {resnet, resnetFlops},
		"vit-tiny":    {vit, vitFlops},
		"gpt2":        {124_439_808, gptFlops(12, 768, 64, 4, 50257)},
	}
	if got := len(Workloads()); got != len(want) {
		t.Errorf("%d workloads, want %d", got, len(want))
	}
	for _, w := range Workloads() {
		g, err := w.Graph(1, false)
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		var parameters int64
		for _, v := range g.Vars {
			if v.Role == graph.Parameter {
				parameters += int64(v.Meta.Elems())
			}
		}
		if x := want[w.Name]; parameters != x.parameters || w.Parameters != x.parameters {
			t.Errorf("%s has %d parameters and says %d, want %d", w.Name, parameters, w.Parameters, x.parameters)
		}
		if x := want[w.Name]; Flops(g) != x.flops {
			t.Errorf("%s: %d flops a step, want %d", w.Name, Flops(g), x.flops)
		}
	}
	gpt2, err := Lookup("gpt2")
	if err != nil {
		t.Fatal(err)
	}
	if g, _ := gpt2.Graph(1, false); g.Find("wpe.weight").Meta.Shape[0] != 1024 {
		t.Error("gpt2 should keep all 1024 positions")
	}
}

func ExampleLookup() {
	w, err := Lookup("gpt2")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.About)
	fmt.Println(w.Parameters, "parameters, batch", w.Batch)
	// Output:
	// gpt of 12 layers, 12 heads, width 768, 64 of 1,024 positions, vocabulary 50,257
	// 124439808 parameters, batch 4
}
