package models

// types is the table of layer types, by name. Each file holds the rows of its
// layers; [RegisterLayer] adds those of a program.
var types = merged(basicLayers, activationLayers(), convLayers, normLayers, randomLayers, sequenceLayers, recurrentLayers,
	movementLayers, reduceLayers, nestedLayers)
