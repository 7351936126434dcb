package configs

import (
	"math"
	"regexp"
)

// LeastMemory is the smallest limit on a device's memory in bytes. No model fits
// in less: a smaller number lacks its unit.
const LeastMemory = 64 << 10

// leastHostMemory is the smallest bound on host memory in bytes.
const leastHostMemory = 1 << 20

// taskMultilabel is the Data.Task of several labels that are each yes or no.
const taskMultilabel = "multilabel"

// Kinds that several keys share.
var (
	pathText  = text{listed: true, path: true, valid: "a path", pattern: regexp.MustCompile(`^[^\x00]+$`)}
	runName   = text{valid: "a name of letters, digits, '.', '_' and '-'", pattern: namePattern, bare: true}
	layerName = text{valid: "a name of letters, digits, '.', '_' and '-'", pattern: namePattern, bare: true}
	blockName = layerName
	device    = text{valid: `devices such as cpu:2, 1 to 9999 of a kind ("cpu:2,null:1" for several kinds)`, pattern: regexp.MustCompile(
		`^[a-z][a-z0-9_]*(:[1-9][0-9]{0,3})?(,[a-z][a-z0-9_]*(:[1-9][0-9]{0,3})?)*$`)}
	deviceKind = text{valid: "a kind of device such as cpu, or cpu:2 for two of them", pattern: regexp.MustCompile(`^[a-z][a-z0-9_]*(:[1-9][0-9]{0,3})?$`)}
	column     = text{valid: "a column's name, or its number from 0", bare: true, pattern: regexp.MustCompile(`.`)}

	counting   = whole{0, maxDim}
	positive   = whole{1, maxDim}
	nonNeg     = real{min: 0, max: math.MaxFloat64}
	fraction   = real{min: 0, max: 1, over: true}
	belowOne   = real{min: 0, max: 1, under: true}
	activation = enum{"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}
	task       = enum{"classification", "regression"}
	tableTask  = append(task[:len(task):len(task)], taskMultilabel)
	precisions = enum{"float32", "bf16"}
	storages   = enum{"float32", "bf16", "int8"}

	namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
)
