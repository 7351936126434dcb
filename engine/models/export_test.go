package models

// Positionwise reports whether a type of layer says that it works on each position alone.
func Positionwise(name string) bool { return types[name].positionwise }
