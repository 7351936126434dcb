package device

// Wrapper is a device that changes how another one behaves.
type Wrapper interface {
	// Unwrap is the other device.
	Unwrap() Device
}

// Opened is the device that was opened: d, or the one that its wrappers contain.
func Opened(d Device) Device {
	for {
		w, ok := d.(Wrapper)
		if !ok {
			return d
		}
		d = w.Unwrap()
	}
}
