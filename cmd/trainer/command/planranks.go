package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/partition"
)

// linkFlag is a flag with what a link between processes costs; the zero value is not given.
type linkFlag struct{ partition.Link }

// Set reads the flag's value.
func (f *linkFlag) Set(text string) error {
	latency, rate, ok := strings.Cut(text, ",")
	rate, per := strings.CutSuffix(strings.TrimSpace(rate), "/s")
	d, err := time.ParseDuration(strings.TrimSpace(latency))
	bytes, err2 := configs.ParseSize(rate)
	if !ok || !per || d < 0 || errors.Join(err, err2) != nil || bytes <= 0 {
		return errors.New("expected a latency and a rate")
	}
	f.Link = partition.Link{Latency: d.Seconds(), BytesPerS: float64(bytes)}
	return nil
}

// String is the flag's value; empty if it is not given.
func (f *linkFlag) String() string {
	if f.Link == (partition.Link{}) {
		return ""
	}
	return linkText(f.Link)
}

// Type is the name of the flag's value.
func (*linkFlag) Type() string { return "LATENCY,RATE" }

// Expected words the flag's values.
func (*linkFlag) Expected() string {
	return "a latency and a rate, such as 20us,10GB/s"
}

// linkText is a link as --link takes it.
func linkText(l partition.Link) string {
	return fmt.Sprintf("%v,%.3gGB/s", time.Duration(l.Latency*1e9), l.BytesPerS/1e9)
}

// rankNotes says what the times of messages are by, and why a rank sends more than it has to.
func (f *planFlags) rankNotes(run *berth.Run, p *partition.Prediction) string {
	text := "link: " + linkText(f.link.Link)
	if f.link.Link == (partition.Link{}) {
		text = fmt.Sprintf("link: %s, which is that of a fast network: give yours by --link; bench --link measures it", linkText(partition.DefaultLink))
	}
	text += "\n"
	if more := run.Plan().SendsMore(p); more != "" {
		text += more + "\n"
	}
	return text
}
