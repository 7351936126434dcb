package configs

import "testing"

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "512MiB": 512 << 20, "2GB": 2e9, "1.5KiB": 1536, "7 B": 7, "9007199254740993": 9007199254740993,
	} {
		c := parse(t, small, Overlay{Set: []string{"devices.memory=" + text}})
		if c.Devices.Memory != want {
			t.Errorf("%s is %d bytes, want %d", text, c.Devices.Memory, want)
		}
		roundTrip(t, c)
	}
	for _, text := range []string{"-1", "1.5.2", "3 parsecs", "99999999TiB", "1e9", "[1]"} {
		if c, err := Parse("a.yaml", []byte(small), Overlay{Set: []string{"devices.memory=" + text}}); err == nil {
			t.Errorf("%s is taken for %d bytes", text, c.Devices.Memory)
		}
	}
}
