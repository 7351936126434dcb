package assembly

func Add(a, b int) int
