// Package specs turns a config into what the packages take that know nothing of configs: the
// specifications of data, model and optimizer. It also reads the data.
//
//	c, err := specs.Check(c, nil)
//	data, err := specs.OpenData(ctx, c, specs.DataOptions{})
//	model := specs.Model(c, &data.Info, nil)
//
// A config stays a config where the packages read one key each, such as devices.timeout:
// package session takes those itself.
package specs
