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
//
// # Why is the ring of losses as long as the longest interval between boundaries?
//
// One pull at the boundary brings all losses out, and a checkpoint between two boundaries carries the
// losses so far. The ring costs four bytes a step, less than a second mechanism would.
//
// # Why does watching a loss not wait for it?
//
// A loss that is pulled back at once makes the host wait for the step, and the devices for the host: the
// queue runs dry. A copy that is queued behind the step costs a few bytes of a copy stream. Only the next
// write of the ring waits for it, on the device. The host looks after each step whether the copy has
// arrived, so a loss is shown up to a step late.
package boundary
