package configs

import (
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": NoTimeout, "0s": NoTimeout, "90s": 90 * time.Second, "5m": 5 * time.Minute, "2h30m": 150 * time.Minute} {
		c := parse(t, smallOn("cpu"), Overlay{Set: []string{"devices.timeout=" + text}})
		if c.Devices.Timeout != want {
			t.Errorf("%s is %v", text, c.Devices.Timeout)
		}
	}
	for d, want := range map[time.Duration]string{NoTimeout: "0", time.Second: "1s", 90 * time.Second: "1m30s", 5 * time.Minute: "5m", time.Hour: "1h", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s", 50 * time.Minute: "50m"} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is %s, expected %s", d, got, want)
		}
	}
	for _, text := range []string{"5", "-1s", "soon", "[1s]"} {
		if _, err := Parse("x", []byte(smallOn("cpu")), Overlay{Set: []string{"devices.timeout=" + text}}); err == nil {
			t.Errorf("%s is a time", text)
		}
	}
	for text, want := range map[string]time.Duration{"1s": time.Second, "90s": 90 * time.Second} {
		if c := parse(t, smallOn("cpu"), Overlay{Set: []string{"distributed.timeout=" + text}}); c.Distributed.Timeout != want {
			t.Errorf("%s is %v", text, c.Distributed.Timeout)
		}
	}
	for _, text := range []string{"0", "999ms", "-1s", "5", "[1s]"} {
		_, err := Parse("x.yaml", []byte(smallOn("cpu")+"distributed:\n  timeout: "+text+"\n"), Overlay{})
		if err == nil || !strings.Contains(err.Error(), "expected a time of at least 1s") || !strings.Contains(err.Error(), "x.yaml:5: distributed.timeout: got ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
