// It adds nothing: that it is there is enough.
