package schedule

// Spec describes a schedule to be made by name.
type Spec struct {
	Name         string // see New
	Stages       int
	Microbatches int   // of a step, over all replicas
	Replicas     int   // of each stage; 0 means 1
	Shares       []int // microbatches of each replica, at least 1: of a step of their sum, and of others in proportion; nil: each has about as many
	Workers      []int // as Schedule.Workers; nil gives each stage a worker
}
