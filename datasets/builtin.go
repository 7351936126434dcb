package datasets

import "embed"

// builtin is the data inside the binary. data/README.md names the origin of each
// file.
//
//go:embed data/*.gz
var builtin embed.FS

// readBuiltin unpacks a file inside the binary.
func readBuiltin(name string) ([]byte, error) {
	data, err := builtin.ReadFile("data/" + name)
	if err != nil {
		return nil, err
	}
	return unpack(name, data)
}
