package segment

// Grain is how finely a stage is cut into segments. A launch of a finer segment
// needs less memory at once; the price is more launches, and values that
// segments share where they were inside one. Nodes and their order are the same.
type Grain uint8

// The grains, from coarse to fine.
const (
	WholePhases Grain = iota // a segment per phase and level of the update
	ByBlock                  // cut at blocks, and updates at parameters
	ByLayer                  // cut at layers too
	ByNode                   // cut at every op
	Grains      int   = iota
)

var grainNames = [Grains]string{"whole phases", "blocks", "layers", "ops"}

// String is for people: "blocks".
func (g Grain) String() string { return grainNames[g] }
