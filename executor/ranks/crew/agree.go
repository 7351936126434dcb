package crew

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Fact is something that must be the same in all ranks.
type Fact struct {
	Name   string // "train.batch"
	Value  string
	Remedy string // what a user does about a difference
}

// word is what a rank says of itself: what went wrong, or what must be the same everywhere.
type word struct {
	Err   string
	Kind  Kind
	Facts []Fact
	Alone bool // rank 0 works for all
}

// Agree compares what ranks have come to. err is what went wrong in this one; what names, for those who wait, the
// work that it was. Unless all went well and all facts are the same, all ranks get a [Verdict]. ctx's end does not
// end the waiting, since the others would wait for this rank then.
func (c *Crew) Agree(ctx context.Context, what string, err error, facts ...Fact) error {
	return c.agree(ctx, what, err, word{Facts: facts})
}

// Decide is Agree about what rank 0 does for all, such as with the run folder: what goes wrong there is told as in one
// process.
func (c *Crew) Decide(ctx context.Context, what string, err error) error {
	return c.agree(ctx, what, err, word{Alone: true})
}

func (c *Crew) agree(ctx context.Context, what string, err error, w word) error {
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		w = word{Err: err.Error(), Kind: c.kindOf(err), Alone: w.Alone}
	}
	mine, failed := json.Marshal(w)
	if failed != nil {
		return failed
	}
	all, failed := c.collect(ctx, what, mine)
	if failed != nil {
		return failed
	}
	var judged []byte
	if c.Rank() == 0 {
		v, failed := c.judge(all)
		if failed == nil {
			judged, failed = json.Marshal(v)
		}
		if failed != nil {
			return failed
		}
	}
	if judged, failed = c.Share(ctx, what, judged); failed != nil {
		return failed
	}
	var v *Verdict
	if failed = json.Unmarshal(judged, &v); failed != nil || v == nil {
		return failed
	}
	v.err = err
	return v
}

// kindOf is what an error is.
func (c *Crew) kindOf(err error) Kind {
	if c.opt.KindOf == nil {
		return Failed
	}
	return c.opt.KindOf(err)
}

// judge is what all come to; nil if all is well.
func (c *Crew) judge(all [][]byte) (*Verdict, error) {
	words := make([]word, len(all))
	for i, b := range all {
		if err := json.Unmarshal(b, &words[i]); err != nil {
			return nil, fmt.Errorf("%s says %q: %w", c.Name(i), b, err)
		}
	}
	if v := c.failure(words); v != nil {
		return v, nil
	}
	for i := 1; i < len(words); i++ {
		if v := c.difference(i, words[0].Facts, words[i].Facts); v != nil {
			return v, nil
		}
	}
	return nil, nil
}

// failure is what went wrong in the first rank where something did. What went wrong in all alike is told as in one process.
func (c *Crew) failure(words []word) *Verdict {
	first, same := -1, true
	for i, w := range words {
		if w.Err != "" && first < 0 {
			first = i
		}
		same = same && w.Err == words[0].Err
	}
	if first < 0 {
		return nil
	}
	text := words[first].Err
	if !same && (first > 0 || !words[0].Alone) {
		text = fmt.Sprintf("%s: %s", c.Name(first), text)
	}
	return &Verdict{Rank: first, Kind: words[first].Kind, Text: text}
}

// difference tells of the first fact that rank 0 and another do not have alike; nil if there is none.
func (c *Crew) difference(rank int, own, others []Fact) *Verdict {
	of := func(list []Fact, name string) Fact {
		if i := slices.IndexFunc(list, func(f Fact) bool { return f.Name == name }); i >= 0 {
			return list[i]
		}
		return Fact{Value: "not there"}
	}
	for _, f := range slices.Concat(own, others) {
		a, b := of(own, f.Name).Value, of(others, f.Name).Value
		if a != b {
			return &Verdict{Rank: rank, Kind: Mistake, Text: fmt.Sprintf("%s differs: it is %s on %s, and %s on %s: %s",
				f.Name, a, c.Name(0), b, c.Name(rank), f.Remedy)}
		}
	}
	return nil
}
