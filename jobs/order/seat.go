package order

import "slices"

// seat names the devices of the chosen jobs. Running jobs stay where they are. Then
// each of the others gets those on which its tensors are, if they are free, and the
// first free ones for the rest.
func seat(jobs []Job, devices []Device, chosen []int, places []Place) {
	free := map[string][]string{}
	for _, d := range devices {
		free[d.Kind] = append(free[d.Kind], d.Name)
	}
	for _, running := range []bool{true, false} {
		for _, i := range chosen {
			if jobs[i].Running == running {
				places[i].Devices = stay(&jobs[i], free)
			}
		}
	}
	for _, i := range chosen {
		places[i].Devices = fill(&jobs[i], places[i].Devices, free)
	}
}

// stay takes those of the job's devices that are free, of each kind as many as it needs.
// An empty name stands where one is missing.
func stay(j *Job, free map[string][]string) (names []string) {
	for _, n := range j.Needs {
		missing := n.Count
		for _, name := range j.On {
			if k := slices.Index(free[n.Kind], name); k >= 0 && missing > 0 {
				free[n.Kind] = slices.Delete(free[n.Kind], k, k+1)
				names = append(names, name)
				missing--
			}
		}
		names = append(names, make([]string, missing)...)
	}
	return names
}

// fill puts free devices where names are missing.
func fill(j *Job, names []string, free map[string][]string) []string {
	at := 0
	for _, n := range j.Needs {
		for range n.Count {
			if names[at] == "" {
				names[at], free[n.Kind] = free[n.Kind][0], free[n.Kind][1:]
			}
			at++
		}
	}
	return names
}
