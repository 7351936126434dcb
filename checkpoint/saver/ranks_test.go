package saver_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/internal/smallrun"
)

// A rank whose variables cannot be copied ends the save at once, with what went wrong there: the one that writes does not
// wait for it, nor the others for the one that writes.
func TestSaveOfARankThatFails(t *testing.T) {
	for broken := range 2 {
		runs := []*smallrun.Run{smallrun.New(t, "cpu"), smallrun.New(t, "cpu")}
		db, err := checkpoint.Open(filepath.Join(t.TempDir(), "x.db"), checkpoint.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(t.Context(), 20*time.Second) // of what may take milliseconds
		ended, end := context.WithCancel(t.Context())
		end()
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, tr := range ranks.NewLoop(2, func(int) {}) {
			wg.Go(func() {
				c, err := crew.Meet(t.Context(), tr, crew.Options{Timeout: 20 * time.Second, Member: crew.Member{Program: "test", Threads: 1}})
				if err != nil {
					errs[i] = err
					return
				}
				o := saver.NewOptions{
					Keep: checkpoint.Keep{Last: 1}, Saved: func(saver.Saved) {}, Damaged: func([]checkpoint.Skipped) {}, Note: func(string) {},
					Ranks: &saver.Ranks{
						Rank: i, Others: []int{1},
						Holder: func(name string) int { return len(name) % 2 }, // weights and biases are on different ranks
						Borrow: func(rank int) saver.Reader { return c.Borrow(rank) },
						Lend: func(_ context.Context, read func(part int, off int64, dst []byte) error) error {
							return c.Lend(limited, 0, read)
						},
					},
				}
				if i == 0 {
					o.DB = db
				}
				s := saver.New(runs[i].Runtime.Residency, runs[i].Plan.Graph, runs[i].Program.Var, o)
				ctx := limited
				if i == broken {
					ctx = ended
				}
				err = s.Save(ctx, ctx, checkpoint.Manifest{Step: 7})
				errs[i] = errors.Join(err, s.Await(), s.Close())
				errs[i] = errors.Join(errs[i], c.Close())
			})
		}
		wg.Wait()
		if late := limited.Err(); late != nil {
			t.Errorf("rank %d is broken: another waits for it: %v", broken, errs)
		}
		if err := errs[broken]; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "checkpoint at step 7") {
			t.Errorf("rank %d is broken, and says %v", broken, err)
		}
		if broken == 1 && (errs[0] == nil || !strings.Contains(errs[0].Error(), context.Canceled.Error())) {
			t.Errorf("the rank that writes says %v", errs[0])
		}
		list, _, err := db.List()
		if err != nil || len(list) > 0 {
			t.Errorf("%d checkpoints, %v", len(list), err)
		}
		cancel()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
