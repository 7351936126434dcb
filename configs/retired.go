package configs

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// retired is a key that Berth had once. A file that has it, such as that of an old run folder, is
// read without it, and the config gets a note. From outside a file it is refused.
type retired struct {
	path string // of the key
	def  string // its default: old run folders have it although nobody set it, so it gives no note; "": there is no default
	flag string // the flag that is gone with it; "": none
	now  string // what to do in place of it
}

var retirements = []retired{
	{path: "devices.evict", def: "next-use", now: "what is not needed for longest leaves a device first, unless the device has a policy of its own"},
	{path: "devices.op_by_op_log", flag: "op-by-op-log", now: "the log of op_by_op goes to standard error, which 2>FILE writes to a file"},
}

// retiredVariables are environment variables that are gone and stood for no key, each with
// what to do instead.
var retiredVariables = map[string]string{
	"BERTH_BLAS": "Berth's own kernels compute all products; unset it",
}

// RetiredFlag says what to do in place of a flag that is gone; "" for any other name.
func RetiredFlag(name string) string {
	for _, r := range retirements {
		if name != "" && r.flag == name {
			return r.now
		}
	}
	return ""
}

// retiredVariable says what to do in place of a variable that is gone; "" for any other name.
func retiredVariable(name string) string {
	for _, r := range retirements {
		if variable(r.path) == name {
			return r.now
		}
	}
	return retiredVariables[name]
}

// retiredKey says what to do in place of a key that is gone; "" for any other path.
func retiredKey(path string) string {
	for _, r := range retirements {
		if r.path == path {
			return r.now
		}
	}
	return ""
}

// dropRetired takes retired keys out of the tree.
func (d *decoder) dropRetired(root *yaml.Node) {
	for _, r := range retirements {
		in, value := valueAt(root, r.path)
		if value == nil {
			continue
		}
		switch {
		case d.origin[value] != "":
			d.fail(d.pos(value), "", "%s is gone: %s", r.path, r.now)
		case r.def == "" || value.Value != r.def:
			d.notes = append(d.notes, fmt.Sprintf("%v: %s is gone, and passed over: %s", d.pos(value), r.path, r.now))
		}
		at := slices.Index(in.Content, value)
		in.Content = slices.Delete(in.Content, at-1, at+1)
	}
}

// valueAt gives the value of a key and the mapping that has it; nil if it is not given. A section
// in its short form has no keys.
func valueAt(root *yaml.Node, path string) (in, value *yaml.Node) {
	in, value = nil, root
	for name := range strings.SplitSeq(path, ".") {
		if in = value; in.Kind != yaml.MappingNode {
			return nil, nil
		}
		if value = lookUp(in, name); value == nil {
			return nil, nil
		}
	}
	return in, value
}
