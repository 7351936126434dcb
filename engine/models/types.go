package models

// types is the table of layer types, by name. Each file holds the rows of its
// layers; [RegisterLayer] adds those of a program.
var types = merged(basicLayers, activationLayers(), convLayers, normLayers, randomLayers, sequenceLayers,
	movementLayers, reduceLayers, nestedLayers)

// merged joins the tables of the files.
func merged[T any](tables ...map[string]T) map[string]T {
	all := map[string]T{}
	for _, t := range tables {
		for name, row := range t {
			if _, twice := all[name]; twice {
				panic("BUG: two layer types are called " + name)
			}
			all[name] = row
		}
	}
	return all
}
