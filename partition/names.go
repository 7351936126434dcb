package partition

import (
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/recompute"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/simulate"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// What a plan consists of, under the names of the passes that make it.
type (
	Segment    = segment.Segment
	Variant    = segment.Variant
	Slot       = segment.Slot
	Mode       = segment.Mode
	Passes     = segment.Passes
	Transfer   = segment.Transfer
	Rate       = segment.Rate
	Launch     = step.Launch
	Need       = step.Need
	Instance   = step.Instance
	ID         = step.ID
	Exchange   = step.Exchange
	Message    = step.Message
	Holders    = step.Holders
	Forecast   = forecast.Forecast
	Prediction = simulate.Prediction
	Moving     = simulate.Moving
	LaunchSpan = simulate.LaunchSpan
	Wait       = simulate.Wait
	CopySpan   = simulate.CopySpan
	Fewer      = cut.Fewer
	PinError   = cut.PinError
)

// How a segment uses a slot's tensor.
const (
	Read      = segment.Read
	Write     = segment.Write
	ReadWrite = segment.ReadWrite
)

// How often something moves.
const (
	PerMicrobatch = segment.PerMicrobatch
	PerStep       = segment.PerStep
	PerRun        = segment.PerRun
)

// What the options of a plan can tell the passes.
type (
	Recompute    = recompute.Kind
	Estimate     = forecast.Estimate
	Supports     = place.Supports
	Seconds      = speed.Seconds
	CallSeconds  = speed.CallSeconds
	CopySeconds  = speed.CopySeconds
	HostSeconds  = speed.HostSeconds
	BlockSeconds = cut.BlockSeconds
	Link         = speed.Link
)

// FewRanks is the most ranks of which a prediction has each launch and each copy.
const FewRanks = simulate.FewRanks

// DefaultLink is between ranks where nothing else is known.
var DefaultLink = speed.DefaultLink

// The values that can be computed again.
const (
	RecomputeNone  = recompute.None
	RecomputeCheap = recompute.Cheap
	RecomputeBlock = recompute.Block
)

// Errors of the passes.
var (
	ErrStages = cut.ErrStages
	ErrGraph  = nodes.ErrGraph
)

// NewExchange finds what ranks send each other in a step. of is, per device, the rank that has it.
func NewExchange(launches []Launch, of []int) *Exchange { return step.NewExchange(launches, of) }
