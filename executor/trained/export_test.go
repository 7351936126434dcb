package trained

// HostBounds are the bounds on host memory of the groups of devices, which have it at the same time.
func (s *Service) HostBounds() (list []int64) {
	for _, rt := range s.rts {
		list = append(list, rt.Residency.HostMemory().Bound)
	}
	return list
}
