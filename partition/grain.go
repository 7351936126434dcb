package partition

// grain is how finely a stage is cut into segments. A launch of a finer segment
// needs less memory at once; the price is more launches, and values that
// segments share where they were inside one. Nodes and their order are the same.
type grain uint8

// The grains, from coarse to fine.
const (
	wholePhases grain = iota // a segment per phase and level of the update
	byBlock                  // cut at blocks, and updates at parameters
	byLayer                  // cut at layers too
	byNode                   // cut at every op
	grains      int   = iota
)

var grainNames = [grains]string{"whole phases", "blocks", "layers", "ops"}

// String is for people: "blocks".
func (g grain) String() string { return grainNames[g] }
