package checkpoints

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func lsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "ls RUN", Short: "List checkpoints",
		Long:    "List checkpoints. SIZE is a checkpoint's whole size, SHARED the part that it shares with earlier ones. A narrow terminal lacks columns. In JSON, a damaged checkpoint has an \"id\" and an \"error\" alone.",
		Example: "  trainer checkpoints ls runs/digits", Args: cli.Args(1),
	}
	asJSON := c.Flags().Bool("json", false, "print a JSON array")
	c.RunE = func(c *cobra.Command, args []string) error {
		return reading(args[0], func(db *checkpoint.DB) error {
			list, skipped, err := db.List()
			switch {
			case err != nil:
				return err
			case *asJSON:
				return listJSON(c.OutOrStdout(), list, skipped)
			}
			return listTable(c.OutOrStdout(), list, skipped)
		})
	}
	return c
}

func listTable(out io.Writer, list []checkpoint.Manifest, skipped []checkpoint.Skipped) error {
	best, by := checkpoint.BestOf(list), rankedBy(list)
	rows := [][]string{{"ID", "STEP", "EPOCH", "TRAIN LOSS", "VAL LOSS", strings.ToUpper(strings.ReplaceAll(by, "_", " ")), "SIZE", "SHARED", "TIME", ""}}
	for _, m := range list {
		mark := ""
		if m.ID == best {
			mark = "best"
		}
		rows = append(rows, []string{
			fmt.Sprint(m.ID), fmt.Sprint(m.Step), fmt.Sprint(m.Epoch), metric(m, "train_loss"), metric(m, "val_loss"),
			metric(m, by), units.Bytes(m.Bytes), units.Bytes(m.Bytes - m.Fresh), m.Time.Local().Format("2006-01-02 15:04"), mark,
		})
	}
	text := columns.Format(rows, columns.Layout{Cut: []int{5}, Drop: []int{7, 2, 6, 8, 3}, Width: console.Room(out)})
	for _, s := range skipped {
		text += fmt.Sprintf("%v\n", s)
	}
	_, err := io.WriteString(console.NewProse(out), text)
	return err
}

// rankedBy is the metric that a list shows beside the losses: the one that ranks the
// checkpoints, or else the usual one of their task.
func rankedBy(list []checkpoint.Manifest) string {
	for _, m := range slices.Backward(list) {
		if by := m.Best.Metric; by != "" && by != "val_loss" {
			return by
		}
	}
	for _, m := range list {
		if _, amounts := m.Metrics["val_rmse"]; amounts {
			return "val_rmse"
		}
	}
	return "val_accuracy"
}

func metric(m checkpoint.Manifest, name string) string {
	if v, ok := m.Metrics[name]; ok {
		return text.Metric(name, v)
	}
	return "-"
}

// listed is a checkpoint as ls --json prints it.
type listed struct {
	ID      uint64             `json:"id"`
	Step    int                `json:"step"`
	Epoch   int                `json:"epoch"`
	Metrics map[string]float64 `json:"metrics"`
	Bytes   int64              `json:"bytes"`
	Shared  int64              `json:"shared_bytes"`
	Time    time.Time          `json:"time"`
	Best    bool               `json:"best"`
}

// unusable is a checkpoint that cannot be read; its ID is 0 where that is not
// known.
type unusable struct {
	ID    uint64 `json:"id"`
	Error string `json:"error"`
}

func listJSON(out io.Writer, list []checkpoint.Manifest, skipped []checkpoint.Skipped) error {
	all := []any{}
	best := checkpoint.BestOf(list)
	for _, m := range list {
		if m.Metrics == nil { // saved within an epoch
			m.Metrics = map[string]float64{}
		}
		all = append(all, listed{m.ID, m.Step, m.Epoch, m.Metrics, m.Bytes, m.Bytes - m.Fresh, m.Time, m.ID == best})
	}
	for _, s := range skipped {
		all = append(all, unusable{s.ID, s.Err.Error()})
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(all)
}
