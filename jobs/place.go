package jobs

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// configName stands in errors for the file of a job's config. A sweep tells equal failures of its trials once.
func configName(j *queue.Job) string {
	if j.Trial != nil {
		return "config of the trial"
	}
	return fmt.Sprintf("config of job %d", j.ID)
}

// keyed is an error about a job with the keys of its config in place of lines: a key has the same name in the file that was
// submitted, while the lines are those of the resolved text.
func keyed(err error, j *queue.Job, text []byte) error {
	if err == nil {
		return nil
	}
	name, shown := configName(j), "the trial's jobs show --config"
	if j.Trial == nil {
		shown = fmt.Sprintf("trainer jobs show %d --config", j.ID)
	}
	c, unread := configs.Parse(name, text, configs.Overlay{})
	line := regexp.MustCompile(regexp.QuoteMeta(name) + `:(\d+)`)
	return worded{err, line.ReplaceAllStringFunc(err.Error(), func(place string) string {
		n := line.FindStringSubmatch(place)[1]
		at := fmt.Sprintf("line %s of %s", n, shown)
		if number, wide := strconv.Atoi(n); unread == nil && wide == nil && c.KeyAt(number) != "" {
			return c.KeyAt(number) + " (" + at + ")"
		}
		return at
	})}
}

// worded is an error with another text.
type worded struct {
	error
	text string
}

func (e worded) Error() string { return e.text }
func (e worded) Unwrap() error { return e.error }
