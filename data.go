package berth

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/columns"
	"github.com/berth-ml/berth/internal/errs"
)

// ReadData reads the config's data, without a model. It also describes the columns of a
// table of numbers.
func ReadData(ctx context.Context, c *configs.Config) (*datasets.Dataset, error) {
	if err := cmp.Or(errs.CheckContext(ctx), specs.CheckKeys(c)); err != nil {
		return nil, err
	}
	return specs.OpenData(ctx, c, specs.DataOptions{Describe: true})
}

// DescribeTable describes the columns of the config's table, over all its rows, whichever is
// the label. It gives the table's format and path, too.
func DescribeTable(ctx context.Context, c *configs.Config) (name string, list []columns.Description, err error) {
	if err := cmp.Or(errs.CheckContext(ctx), specs.CheckKeys(c)); err != nil {
		return "", nil, err
	}
	return specs.DescribeTable(ctx, c)
}
