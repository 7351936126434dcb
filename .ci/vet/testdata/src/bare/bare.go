package bare

func Add(a, b int) int // want `Add has no body`

func Sub(a, b int) int { return a - b }
