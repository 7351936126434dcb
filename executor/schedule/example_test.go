package schedule_test

import (
	"fmt"
	"log"

	"github.com/berth-ml/berth/executor/schedule"
)

func Example() {
	s, err := schedule.New(schedule.Spec{Name: "1f1b", Stages: 2, Microbatches: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(s)
	fmt.Println(s.Order())
	fmt.Printf("bubble %.0f%%, stage 0 holds %d microbatches\n", 100*s.Simulate(s.Typical()).Bubble, s.InFlight(0, schedule.Backward))

	s, err = schedule.Parse(`schedule mine stages 2 microbatches 2
0: 0F0 0B0 0F1 0B1 0U
1: 1F0 1F1 1B0 1B1 1U
`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Validate())
	// Output:
	// schedule 1f1b stages 2 microbatches 3
	// 0: 0F0 0F1 .   0B0 0F2 0B1 .   0B2 0U
	// 1: .   1F0 1B0 1F1 1B1 1F2 1B2 1U  .
	// [0F0 0F1 1F0 1B0 0B0 1F1 1B1 0F2 0B1 1F2 1B2 0B2 1U 0U]
	// bubble 25%, stage 0 holds 2 microbatches
	// invalid schedule: 0B0 is in a deadlock: it waits for 1B0, which never runs before it
	// schedule mine stages 2 microbatches 2
	// 0: 0F0   .     [0B0] 0F1   0B1   0U
	// 1: .     1F0   1F1   1B0   1B1   1U
}
