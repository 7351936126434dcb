module github.com/berth-ml/berth/bench/peers

go 1.26.0

require (
	github.com/berth-ml/berth v0.0.0
	github.com/ebitengine/purego v0.11.3
	golang.org/x/sys v0.50.0
)

replace github.com/berth-ml/berth => ../..
