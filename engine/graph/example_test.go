package graph_test

import (
	"fmt"
	"log"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// A dense layer y = x·w, the sum of its outputs as the loss, and the gradient of
// the loss with respect to w.
func ExampleBuilder() {
	b := graph.NewBuilder("dense", 1)
	x := b.Input("x", shape.F32(2, 3))
	w := b.Var("w", shape.F32(3, 4), graph.Parameter, graph.Init{})
	loss := ops.Sum(b, b.One(ops.MatMul{}, x, w), false, 0, 1)
	seed := ops.Const(b, shape.F32(), 1) // the gradient of the loss with respect to itself
	grads := b.Gradients(loss, seed, []*graph.Value{w}, ops.AddOp)
	b.Output("loss", loss)
	b.Output("dw", grads[w][0])
	g, err := b.Graph()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g.Text())
	// Output:
	// graph dense: 6 nodes
	// input x f32[2,3]
	// parameter w f32[3,4]
	// forward:
	//   matmul f32[2,4] = matmul{TransA:false TransB:false BF16:false}(x, w)
	//   loss f32[] = reduce_sum{Fn:sum Axes:[0 1] Keep:false}(matmul)
	//   fill f32[] = fill{Meta:f32[] Value:1}()
	// backward:
	//   backward/reshape f32[1,1] = reshape{Shape:[1,1]}(fill)
	//   backward/broadcast_to f32[2,4] = broadcast_to{Shape:[2,4]}(backward/reshape)
	//   dw f32[3,4] = matmul{TransA:true TransB:false BF16:false}(x, backward/broadcast_to)
	// output loss f32[]
	// output dw f32[3,4]
}

// Shapes are inferred while the graph is built: a mistake names the layer.
func ExampleBuilder_shapeError() {
	b := graph.NewBuilder("dense", 1)
	x := b.Input("x", shape.F32(2, 3))
	defer b.In(&graph.Layer{Index: 0, Type: "dense", Name: "fc", Block: "fc", Pos: graph.Pos{File: "mine.yaml", Line: 7}})()
	w := b.Var("fc.weight", shape.F32(5, 4), graph.Parameter, graph.Init{})
	b.One(ops.MatMul{}, x, w)
	_, err := b.Graph()
	fmt.Println(err)
	// Output: mine.yaml:7: layer 0 (dense "fc"): input has 3 features, weight expects 5
}
