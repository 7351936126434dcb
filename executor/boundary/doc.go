// Package boundary is the border between steps, during which only the batch
// goes to the devices, and the moments between epochs, when results come out.
// [Seal] closes it and [Unseal] opens it; [Rings] pulls back the losses that
// steps recorded on the device.
//
//	boundary.Seal(rt.Residency, false)
//	… an epoch's steps …
//	boundary.Unseal(rt.Residency)
//	mean, err := rings.Mean(ctx, models.LossRing, first, last, samplesOf)
package boundary
