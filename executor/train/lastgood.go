package train

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
)

// lastGood says where to go on from after numbers of the run stopped being finite.
func (a *attempt) lastGood() string {
	if a.failed == 1 {
		return "no weight has changed yet: look at the values of the data (trainer data), and at the weights that it begins with, if --init names them"
	}
	if !a.leads() {
		return "lower the learning rate or set optimizer.clip_norm, and begin a run from the last good checkpoint of the run folder, if it has one (--init)"
	}
	const change = "with a lower learning rate or with optimizer.clip_norm"
	good, all := a.newestFinite()
	path := a.folder.DB.Path()
	switch {
	case all == 0:
		return "there is no checkpoint yet: lower the learning rate or set optimizer.clip_norm"
	case good == nil:
		return fmt.Sprintf("no checkpoint in %s has finite weights: begin another run %s", path, change)
	}
	return fmt.Sprintf("the last good checkpoint is of step %d in %s: export it (trainer export --checkpoint %d), and begin a run from it (--init) %s", good.Step, path, good.ID, change)
}

// withoutNewest says how a run goes on whose newest checkpoint has weights that are not
// finite.
func (a *attempt) withoutNewest() string {
	good, _ := a.newestFinite()
	path := a.folder.DB.Path()
	if good == nil {
		return fmt.Sprintf("no checkpoint in %s has finite weights: begin anew (--fresh)", path)
	}
	return fmt.Sprintf("the last good checkpoint is %d, of step %d, in %s: delete those after it (trainer checkpoints prune --checkpoint ID) to go on from it", good.ID, good.Step, path)
}

// newestFinite is the newest checkpoint that can be read and whose weights are finite, nil
// if none is; all counts those that there are.
func (a *attempt) newestFinite() (good *checkpoint.Manifest, all int) {
	list, _, err := a.folder.DB.List()
	if err != nil {
		return nil, 0
	}
	for i := len(list) - 1; i >= 0; i-- {
		s, err := a.folder.DB.Load(list[i].ID)
		if err == nil && s.Finite(context.Background(), graph.Parameter.String()) == nil {
			return &list[i], len(list)
		}
	}
	return nil, len(list)
}
