package configs

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// retiredKeys are gone, by what became of them. A file may still have one, as those of older
// runs do: it is passed over, with a note.
var retiredKeys = map[string]string{
	"devices.evict": "what is not needed for longest leaves a device first, unless the device has a policy of its own",
}

// retire takes retired keys out of a file's tree, and gives a note on each.
func retire(file string, root *yaml.Node) (notes []string) {
	for path, now := range retiredKeys {
		parts := strings.Split(path, ".")
		last := len(parts) - 1
		in := descend(root, parts[:last], nil)
		if in == nil || in.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(in.Content); i += 2 {
			if k := in.Content[i]; k.Value == parts[last] {
				notes = append(notes, fmt.Sprintf("%v: %s is gone, and passed over: %s", Pos{file, k.Line}, path, now))
				in.Content = slices.Delete(in.Content, i, i+2)
				break
			}
		}
	}
	slices.Sort(notes)
	return notes
}
