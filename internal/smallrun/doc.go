// Package smallrun is a small classifier of the shipped digits on a device,
// ready to train: for tests of the packages that training is made of. Only
// tests import it; they register the kinds of devices.
//
//	r := smallrun.New(t, "cpu:2")
//	f, err := feed.New(r.Devices[0], r.Program, r.Data.Train, …)
//
// The type to know is [Run].
package smallrun
