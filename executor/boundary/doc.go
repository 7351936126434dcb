// Package boundary is the border between steps, during which only the batch
// goes to the devices, and the moments between them when results come out.
// [Seal] closes it and [Unseal] opens it; [Rings] pulls back the losses that
// steps recorded on the device.
//
//	boundary.Seal(rt.Residency)
//	… steps …
//	boundary.Unseal(rt.Residency)
//	losses, err := rings.Pull(ctx, ledger.Epoch, models.LossRing)
//	mean := losses.Mean(first, last, samplesOf)
package boundary
