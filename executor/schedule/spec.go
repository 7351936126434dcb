package schedule

// Spec describes a schedule to be made by name.
type Spec struct {
	Name         string // see New
	Stages       int
	Microbatches int   // of a step, over all replicas
	Replicas     int   // of each stage; 0 means 1
	Workers      []int // as Schedule.Workers; nil gives each stage a worker
}
