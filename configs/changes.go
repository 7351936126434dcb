package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Change is a key of the identity whose value differs between two configs. A
// key that is not set has an empty value.
type Change struct{ Key, Then, Now string }

// String is "train.batch was 32, is 64".
func (c Change) String() string {
	return fmt.Sprintf("%s was %s, is %s", c.Key, cmp.Or(c.Then, "not set"), cmp.Or(c.Now, "not set"))
}

// Changes compares the identities of two resolved configs, key by key in the
// order of the config. For a layer whose type changed, the type stands for all
// its keys. The error is ErrInvalid where one of the texts is no config.
func Changes(then, now []byte) ([]Change, error) {
	before, err := identityOf(then)
	if err != nil {
		return nil, err
	}
	after, err := identityOf(now)
	if err != nil {
		return nil, err
	}
	nameLoss(before, after)
	nameLoss(after, before)
	before, after = joinMappings(before, after), joinMappings(after, before)
	was, is := byKey(before), byKey(after)
	seen := map[string]bool{}
	var out []Change
	changed := "\x00" // the prefix of keys of the layer whose type changed; first one that no key has
	for _, s := range slices.Concat(after, before) {
		then, had := was[s.Key]
		now, has := is[s.Key]
		if then == now && had == has || strings.HasPrefix(s.Key, changed) {
			continue
		}
		if !seen[s.Key] {
			out = append(out, Change{s.Key, then, now})
		}
		seen[s.Key] = true
		if layer, ok := strings.CutSuffix(s.Key, "].type"); ok {
			changed = layer + "]."
		}
	}
	return out, nil
}

// nameLoss turns `loss: NAME` into `loss: {name: NAME}`, of which it is short, where the other
// config has the long form.
func nameLoss(settings, other []Setting) {
	isLong := func(s Setting) bool { return s.Key == "loss.name" }
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == "loss" })
	if i >= 0 && slices.ContainsFunc(other, isLong) {
		settings[i].Key = "loss.name"
	}
}

// mappings are the keys that have one value or a mapping.
var mappings = []string{"data.split", "loss.class_weights", "loss.positive_weights"}

// joinMappings makes one value of a mapping, such as data.split: {val: 0.1, test: 0.1}, where the other
// config has one value in its place, such as data.split: 0.8.
func joinMappings(settings, other []Setting) (out []Setting) {
	whole := byKey(other)
	for _, s := range settings {
		i := slices.IndexFunc(mappings, func(m string) bool { return strings.HasPrefix(s.Key, m+".") })
		if i < 0 {
			out = append(out, s)
			continue
		}
		mapping := mappings[i]
		entry := s.Key[len(mapping)+1:] + ": " + s.Value
		if _, ok := whole[mapping]; !ok {
			out = append(out, s)
		} else if at := slices.IndexFunc(out, func(o Setting) bool { return o.Key == mapping }); at >= 0 {
			out[at].Value = strings.TrimSuffix(out[at].Value, "}") + ", " + entry + "}"
		} else {
			out = append(out, Setting{mapping, "{" + entry + "}"})
		}
	}
	return out
}

// SummaryOfChanges joins changes into one line: the first six, and the number
// of the rest.
func SummaryOfChanges(list []Change) string {
	const most = 6
	var lines []string
	for _, c := range list[:min(most, len(list))] {
		lines = append(lines, c.String())
	}
	if more := len(list) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}

func byKey(settings []Setting) map[string]string {
	out := make(map[string]string, len(settings))
	for _, s := range settings {
		out[s.Key] = s.Value
	}
	return out
}

func identityOf(text []byte) ([]Setting, error) {
	d := newDecoder("config", Keys)
	d.anyVersion = true
	c, err := d.parse("config", text, Overlay{})
	if err != nil {
		return nil, err
	}
	return c.Settings()
}
