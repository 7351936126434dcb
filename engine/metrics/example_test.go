package metrics_test

import (
	"fmt"

	"github.com/berth-ml/berth/engine/metrics"
)

// The F1 of two classes follows from counts of answers by true and predicted class.
func Example() {
	task := metrics.Task{Kind: metrics.Classes, Classes: 2, Answers: 10}
	set, err := metrics.Choose(task, []string{"f1", "f1_class_1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := &metrics.Collected{Task: task}
	c.Set(set.Statistics[0], []float64{6, 1, 1, 2}) // which a device counts
	values, err := set.Values(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range values.Names() {
		fmt.Printf("%s %.3f\n", name, values[name])
	}
	// Output:
	// f1 0.762
	// f1_class_1 0.667
}
