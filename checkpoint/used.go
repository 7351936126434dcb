package checkpoint

// Used says which weights a result is of.
type Used struct {
	ID      uint64    `json:"checkpoint,omitempty"`      // 0: the weights are File's
	Step    int       `json:"step,omitempty"`            // of the checkpoint
	Best    bool      `json:"best,omitempty"`            // it is the folder's best by the watched metric
	BestID  uint64    `json:"best_checkpoint,omitempty"` // the folder's best; 0: no checkpoint has the metric
	File    string    `json:"file,omitempty"`            // a file of weights
	Skipped []Skipped `json:"-"`                         // damaged checkpoints passed over to find a whole one
}
