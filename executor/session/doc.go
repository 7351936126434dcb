// Package session has a model on devices. It opens the devices that a config names, or takes a part
// of those that several models share; it has the model planned for them, within the limits of
// memory that the config states; and it makes the runtime for each call. Training and answering
// have this in common.
//
//	s, err := session.Open(session.Options{Config: c, Info: info, Spec: spec, Sizes: sizes}, plan)
//	leave, err := s.Enter()
//	rt, err := s.Runtime(ctx, s.Devices, dir, residency.TenantOptions{})
//
// A Session does not change once it is open. After the loss of a device, [Session.Without] is
// another one. The types to know are [Session] and [Pool].
package session
