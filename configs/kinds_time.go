package configs

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// duration is a time.Duration. The text 0 is NoTimeout.
type duration struct{}

func (duration) expect() string { return "a time such as 90s or 5m, or 0" }

func (k duration) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 {
		d.mismatch(n, path, k.expect())
		return
	}
	if v == 0 {
		v = NoTimeout
	}
	*dst.(*time.Duration) = v
}

func (duration) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(formatDuration(*src.(*time.Duration)))
}

// pauses is a time.Duration; 0 stands for never.
type pauses struct{}

func (pauses) expect() string { return "a time of at least 10ms such as 1s, or 0" }

func (k pauses) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v != 0 && v < 10*time.Millisecond {
		d.mismatch(n, path, k.expect())
		return
	}
	*dst.(*time.Duration) = v
}

func (pauses) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(formatDuration(*src.(*time.Duration)))
}

// patience is a time.Duration that is long enough for a process which is busy to be heard of.
type patience struct{}

func (patience) expect() string { return "a time of at least 1s such as 90s or 5m" }

func (k patience) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < time.Second {
		d.mismatch(n, path, k.expect())
		return
	}
	*dst.(*time.Duration) = v
}

func (patience) encode(src any, _ func(*key) bool) *yaml.Node {
	return plain(formatDuration(*src.(*time.Duration)))
}

// saveInterval is a Checkpoint's Every or EveryTime.
type saveInterval struct{}

func (saveInterval) expect() string {
	return "a whole number of at least 0, or a time of at least 1s such as 10m"
}

func (k saveInterval) decode(d *decoder, n *yaml.Node, path string, dst any) {
	c := dst.(*Checkpoint)
	if v, ok := (whole{0, maxDim}).parse(n); ok {
		c.Every, c.EveryTime = v, 0
		return
	}
	v, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < time.Second {
		d.mismatch(n, path, k.expect())
		return
	}
	c.Every, c.EveryTime = 0, v
}

func (saveInterval) encode(src any, _ func(*key) bool) *yaml.Node {
	c := src.(*Checkpoint)
	if c.EveryTime > 0 {
		return plain(formatDuration(c.EveryTime))
	}
	return plain(strconv.Itoa(c.Every))
}

// formatDuration writes a duration without units that are zero: 5m, not 5m0s.
func formatDuration(v time.Duration) string {
	if v <= 0 {
		return "0"
	}
	text := v.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
