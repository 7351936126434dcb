package sweep_test

import (
	"fmt"
	"log"
	"math"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/sweep"
)

// A whole sweep, one trial after the other.
func Example() {
	s, err := configs.ParseSweep("s.yaml", []byte(`
sweep:
  config: digits
  vary: {optimizer.lr: "log:1e-4..1e-1", model.hidden: [[64], [128, 64]]}
  trials: 40
  halving: true
`))
	if err != nil {
		log.Fatal(err)
	}
	most, whole := sweep.Most(s, []sweep.Length{{Steps: 1800, Boundary: 45}})
	fmt.Printf("at most %d of %d steps\n", most, whole)

	trials := make([]sweep.Trial, s.Total())
	steps := make([]int, s.Total()) // that each trial has done
	for {
		d := sweep.Decide(s, trials)
		if d.Over {
			fmt.Printf("trial %d won: %v\n", d.Best, trials[d.Best-1].Settings)
			break
		}
		next := d.Ready[0]
		i := next.Trial - 1
		trials[i].Settings = next.Settings
		steps[i] = sweep.Rungs(s, 1800, 45)[next.Rung]
		trials[i].Values = append(trials[i].Values, loss(next.Settings, steps[i]))
	}
	done := 0
	for _, n := range steps {
		done += n
	}
	fmt.Printf("%d steps\n", done)
	// Output:
	// at most 18945 of 72000 steps
	// trial 1 won: [{optimizer.lr 0.00310708} {model.hidden [64]}]
	// 18945 steps
}

// loss is what training would give.
func loss(settings []configs.Setting, steps int) float64 {
	lr, err := strconv.ParseFloat(settings[0].Value, 64)
	if err != nil {
		log.Fatal(err)
	}
	return math.Abs(math.Log10(lr)+2.5) + 1/float64(steps)
}
