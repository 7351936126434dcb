package main

// The families: programs whose variants compete with each other.
const (
	berthName = "Berth"
	bf16Name  = "Berth in bf16" // bf16 in the products of dense layers; it competes with nobody
	torchName = "PyTorch"
	tunedName = "PyTorch tuned"
	gomlxName = "GoMLX"
	llmcName  = "llm.c"
)

// families are all families, in the order of tables and chart.
var families = []string{berthName, bf16Name, compiledName, torchName, tunedName, gomlxName, llmcName}
