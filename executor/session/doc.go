// Package session has a model on devices. It opens the devices that a config names, or takes a part
// of those that several models share; it has the model planned for them, within the limits of
// memory that the config states; and it makes the runtime for each call. Training and answering
// have this in common.
//
//	s, err := session.Open(session.Options{Config: c, Info: info, Spec: spec, Sizes: sizes}, plan)
//	leave, err := s.Enter()
//	rt, err := s.Runtime(ctx, s.Devices, dir, residency.TenantOptions{})
//
// The plan function sets Plan and, where there are any, Choice, Groups, Judge and Batches. From then
// on a Session does not change. After the loss of a device, [Session.Without] is another one, with
// a plan of its own. The types to know are [Session] and [Pool].
package session
