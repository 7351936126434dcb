module github.com/berth-ml/berth/bench/peers

go 1.26.0

require github.com/berth-ml/berth v0.0.0

replace github.com/berth-ml/berth => ../..
